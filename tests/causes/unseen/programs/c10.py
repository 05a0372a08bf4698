"""The agent of the shop, whose tools have limits."""

from __future__ import annotations

from pathlib import Path

import agent

agent.SERVER = Path(__file__).with_name("shop_with_limits.py")

if __name__ == "__main__":
    agent.main()
