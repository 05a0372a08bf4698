"""Requests of the Model Context Protocol, from the client's side and the server's, in mcp 1.x and 2.x.

One client span per request, with the trace context in its ``_meta``, and one server span below it in the other process.
mcp 2.x makes spans of its own; ours stand in for them, since theirs lack what the conventions ask for.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class McpInstrumentor(Instrumentor):
    """Instruments the ``mcp`` package."""

    requirements: ClassVar = ("mcp >= 1.22, < 3",)
    modules: ClassVar = {
        "mcp.client.stdio": "connections:patch_stdio_client",
        "mcp.client.streamable_http": "connections:patch_http_client",
        "mcp.client.sse": "connections:patch_sse_client",
        "mcp.server.stdio": "connections:patch_stdio_server",
        "mcp.client.session": "versions:patch_client_session",
        "mcp.server.lowlevel.server": "versions:patch_server",
        # mcp 1.x
        "mcp.shared.session": "version_1:patch_session",
        # mcp 2.x
        "mcp.shared._otel": "version_2:patch_own_telemetry",
        "mcp.shared.jsonrpc_dispatcher": "version_2:patch_dispatcher",
        "mcp.shared.direct_dispatcher": "version_2:patch_direct_dispatcher",
        "mcp.server.runner": "version_2:patch_runner",
    }
