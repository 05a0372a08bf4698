"""A job."""

from __future__ import annotations

import loop

if __name__ == "__main__":
    loop.main()
