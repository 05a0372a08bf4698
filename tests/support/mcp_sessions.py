"""Sessions with the real server of `mcp_tool_server.py`, over both transports, in mcp 1.x and 2.x."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

PROGRAM = Path(__file__).with_name("mcp_tool_server.py")
IS_VERSION_1 = version("mcp").startswith("1.")


def environment(spans: Path | None) -> dict[str, str]:
    """Variables of a server, which is instrumented where it is given a file for its spans."""
    without = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    return {**without, **({"SPANS_FILE": str(spans)} if spans else {})}


@contextmanager
def http_server(spans: Path | None = None) -> Iterator[str]:
    """A server on a free port; gives its URL."""
    command = [sys.executable, str(PROGRAM), "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(spans)) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        finally:
            process.terminate()
            process.wait(60)


def stdio_parameters(spans: Path | None = None) -> Any:
    """How a client starts the server over standard input and output."""
    from mcp import StdioServerParameters

    return StdioServerParameters(command=sys.executable, args=[str(PROGRAM), "stdio"], env=environment(spans))


@asynccontextmanager
async def streams(server: str, spans: Path | None = None) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams to a server: at a URL, or over ``"stdio"`` to one that is started for them."""
    if server == "stdio":
        from mcp.client.stdio import stdio_client

        async with stdio_client(stdio_parameters(spans)) as both:
            yield both
        return
    from mcp.client import streamable_http

    client = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
    async with client(server) as found:
        yield found[0], found[1]


@asynccontextmanager
async def session(server: str, spans: Path | None = None, **settings: Any) -> AsyncIterator[Any]:
    """A session that is initialized."""
    from mcp import ClientSession

    async with streams(server, spans) as both, ClientSession(*both, **settings) as opened:
        await opened.initialize()
        yield opened


@asynccontextmanager
async def connected() -> AsyncIterator[Any]:
    """A client of the server in this process."""
    from support import mcp_tool_server

    if IS_VERSION_1:
        from mcp.shared.memory import create_connected_server_and_client_session as connect

        async with connect(mcp_tool_server.server._mcp_server) as opened:
            yield opened
    else:
        from mcp.client import Client

        async with Client(mcp_tool_server.server) as client:
            yield client


def spans_of(file: Path) -> list[dict[str, Any]]:
    """What the server has recorded so far."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def text_of(result: Any) -> str:
    """The text that a tool returned."""
    return str(result.content[0].text)


def is_error(result: Any) -> bool:
    """True where the result says so."""
    return bool(getattr(result, "isError", None) or getattr(result, "is_error", None))
