"""A job."""

from __future__ import annotations

import agent

if __name__ == "__main__":
    agent.main()
