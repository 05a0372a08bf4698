"""A job."""

from __future__ import annotations

import sft

if __name__ == "__main__":
    sft.main()
