"""A job."""

from __future__ import annotations

import ddp

if __name__ == "__main__":
    ddp.main()
