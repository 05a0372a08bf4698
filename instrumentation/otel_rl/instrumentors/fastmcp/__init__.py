"""Suppresses FastMCP's spans of requests that our ``mcp`` records, as it does those of mcp 2.x.

Ours have what the conventions ask for, the outcome of tools among it, and no message of an exception. A call inside of
one process, which is no request, keeps FastMCP's span.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class FastMcpInstrumentor(Instrumentor):
    """Instruments ``fastmcp``."""

    requirements: ClassVar = ("fastmcp >= 4.1.2, < 5",)
    builds: ClassVar = ("fastmcp-slim",)
    needs: ClassVar = ("mcp",)
    modules: ClassVar = {
        "fastmcp.telemetry": "patch:patch_telemetry",
        "fastmcp.client.telemetry": "patch:patch_client",
    }
