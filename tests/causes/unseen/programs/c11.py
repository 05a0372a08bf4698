"""A job."""

from __future__ import annotations

import dpo

if __name__ == "__main__":
    dpo.main()
