"""Rollouts of an agent that checks its sums."""

from __future__ import annotations

from pathlib import Path

import rollouts

rollouts.SERVER = Path(__file__).with_name("server_that_checks.py")

if __name__ == "__main__":
    rollouts.main()
