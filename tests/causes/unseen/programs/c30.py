"""Rollouts against two servers, of which each has limits of its own."""

from __future__ import annotations

from pathlib import Path

import rollouts

rollouts.SERVER = Path(__file__).with_name("server_with_limits.py")

if __name__ == "__main__":
    rollouts.main()
