"""A job."""

from __future__ import annotations

import grpo

if __name__ == "__main__":
    grpo.main()
