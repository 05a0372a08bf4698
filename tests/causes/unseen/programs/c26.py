"""A job."""

from __future__ import annotations

import sb3

if __name__ == "__main__":
    sb3.main()
