"""A job."""

from __future__ import annotations

import fsdp

if __name__ == "__main__":
    fsdp.main()
