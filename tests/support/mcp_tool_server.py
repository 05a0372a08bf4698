"""A real MCP server: `python mcp_tool_server.py stdio | http`, in mcp 1.x and 2.x.

Over HTTP it prints its port first. With `SPANS_FILE` it is instrumented and writes each span there, one JSON object a
line.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any


def instrument(file: str) -> None:
    """Record the spans of this process to ``file``."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    from otel_rl.instrumentors.mcp import McpInstrumentor
    from otel_rl.telemetry.correlation import BaggageSpanProcessor

    class Lines(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            with open(file, "a") as lines:  # noqa: PTH123
                lines.writelines(json.dumps(described(span)) + "\n" for span in spans)
            return SpanExportResult.SUCCESS

    def described(span: ReadableSpan) -> dict[str, Any]:
        return {
            "name": span.name,
            "kind": span.kind.name,
            "scope": span.instrumentation_scope.name,
            "trace": f"{span.context.trace_id:032x}",
            "id": f"{span.context.span_id:016x}",
            "parent": f"{span.parent.span_id:016x}" if span.parent else None,
            "attributes": dict(span.attributes or {}),
            "status": span.status.status_code.name,
        }

    provider = TracerProvider()
    provider.add_span_processor(BaggageSpanProcessor())
    provider.add_span_processor(SimpleSpanProcessor(Lines()))
    trace.set_tracer_provider(provider)
    McpInstrumentor().instrument()


if os.environ.get("SPANS_FILE"):
    instrument(os.environ["SPANS_FILE"])

import anyio  # noqa: E402 - what is imported after `instrument` is instrumented

try:
    from mcp.server import MCPServer as Server
    from mcp.server.mcpserver import Context
except ImportError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as Server

# Its log would render the traceback of each failing tool in colours, which takes longer than all else of a test.
server = Server("tools", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def boom(text: str) -> str:
    """Raise."""
    raise ValueError(text)


@server.tool()
def regret() -> Any:
    """Return an exception object."""
    return ValueError("sorry")


@server.tool()
async def block() -> str:
    """Wait until it is cancelled."""
    await anyio.Event().wait()
    return "never"


@server.tool()
def die() -> str:
    """End the process, as a crash does."""
    os._exit(3)


@server.tool()
async def meta(ctx: Context) -> str:
    """Return what the request's `_meta` holds."""
    found = ctx.request_context.meta
    values = found if isinstance(found, dict) else (found.model_extra if found else None)
    return json.dumps(values or {})


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the client for a completion."""
    from mcp.types import SamplingMessage, TextContent

    question = SamplingMessage(role="user", content=TextContent(type="text", text="2+2?"))
    answer = await ctx.session.create_message(messages=[question], max_tokens=5)
    return str(answer.content.text)


@server.prompt()
def greet(name: str) -> str:
    """Greet."""
    return f"Greet {name}."


@server.resource("memo://today")
def today() -> str:
    """Return a text."""
    return "a text"


def serve_http() -> None:
    """Serve on a free port of the loopback interface."""
    import uvicorn

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    configuration = uvicorn.Config(server.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=0)
    uvicorn.Server(configuration).run(sockets=[listening])


if __name__ == "__main__":
    if sys.argv[1] == "http":
        serve_http()
    else:
        server.run("stdio")
