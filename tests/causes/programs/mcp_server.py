"""Tools of a shop over MCP: `python mcp_server.py NAME`; prints its port first. `POST /day?number=N` is a new day."""

from __future__ import annotations

import random
import socket
import sys

import uvicorn
from bugs import has, now, wait
from mcp.server import MCPServer
from starlette.responses import PlainTextResponse

NAME = sys.argv[1]
server = MCPServer(NAME, log_level="CRITICAL")
orders: list[str] = []


@server.tool()
def find_order(number: int) -> str:
    """Find an order by its number."""
    wait(0.004)
    if has("order_index", since=14) and NAME == "warehouse-b" and random.random() < 0.5:
        raise RuntimeError("index not ready")
    of_order = random.Random(number)
    items = (f"item {of_order.randint(1, 500)}" for _ in range(of_order.randint(2, 6)))
    text = f"order {number}: " + ", ".join(items)
    if has("order_history", since=12):
        text += " history: " + "shipped; returned; " * (3 * (now["step"] - 11) ** 2)
    return text


@server.tool()
def stock(item: int) -> str:
    """How many of an item are in stock."""
    wait(0.006)
    if has("stock_text_errors", since=16):
        return "Error: column qty does not exist"
    return f"item {item}: {random.randint(0, 40)} in stock"


@server.tool()
def refund(number: int) -> str:
    """Pay for an order back."""
    wait(0.005)
    return f"refunded order {number}"


@server.custom_route("/day", methods=["POST"])
async def day(request):
    now["step"] = int(request.query_params["number"])
    return PlainTextResponse("ok")


def main() -> None:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    settings = uvicorn.Config(server.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=0)
    uvicorn.Server(settings).run(sockets=[listening])


if __name__ == "__main__":
    main()
