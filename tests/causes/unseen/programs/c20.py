"""A job."""

from __future__ import annotations

import rloo

if __name__ == "__main__":
    rloo.main()
