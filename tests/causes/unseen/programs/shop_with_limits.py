"""The tools of the shop with a limit of requests."""

from __future__ import annotations

import random

import mcp_server
from bugs import now, wait

mcp_server.server.remove_tool("find_order")


@mcp_server.server.tool()
def find_order(number: int) -> str:
    """Find an order by its number."""
    wait(0.004)
    if now["step"] >= 17 and mcp_server.NAME == "warehouse-b" and random.random() < 0.66:
        return "Error: limit of 60 requests a minute exceeded"
    return f"order {number}: " + ", ".join(f"item {random.randint(1, 500)}" for _ in range(random.randint(2, 6)))


if __name__ == "__main__":
    mcp_server.main()
