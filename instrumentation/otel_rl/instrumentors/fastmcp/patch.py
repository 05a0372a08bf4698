"""Patches of the functions by which FastMCP decides whether to make a span, and sends the trace context."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.trace import INVALID_SPAN, SpanKind

from otel_rl.core import instrumentor_status
from otel_rl.core.guard import guard
from otel_rl.inference import ownership
from otel_rl.instrumentors.patch_functions import bypassing, replacing, together
from otel_rl.telemetry import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

#: Of our spans of requests.
scope = Scope("mcp")
_ACTIVE = (instrumentor_status.ACTIVE, instrumentor_status.DEGRADED)
_MODE = guard("fastmcp.mode")


def _telemetry_mode(original: Callable[[], Any]) -> Callable[[], Any]:
    @functools.wraps(original)
    def telemetry_mode() -> Any:
        mode = original()
        with _MODE:
            span: Any = trace_api.get_current_span()
            is_ours = getattr(getattr(span, "instrumentation_scope", None), "name", None) == scope.name
            if mode == "native" and is_ours and span.kind is SpanKind.SERVER:
                return "propagation_only"
        return mode

    return telemetry_mode


def _records_requests(*_: Any, **__: Any) -> bool:
    """Return whether our ``mcp`` opens a span for each request of a client."""
    status = instrumentor_status.snapshot().get("otel_rl_mcp")
    is_active = status is not None and status["state"] in _ACTIVE
    return is_active and scope.enabled and not ownership.suppressed()


patch_telemetry = together(
    replacing("telemetry_mode", _telemetry_mode),
    # The trace context of our span is sent.
    bypassing("inject_trace_context", when=_records_requests, result=lambda meta=None: meta),
)
#: Ours begins inside of this span.
patch_client = bypassing("client_span", when=_records_requests, result=lambda *_, **__: nullcontext(INVALID_SPAN))
