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
from otel_rl.instrumentors.patch_functions import replacing, together
from otel_rl.telemetry import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

#: Of our spans of requests.
scope = Scope("mcp")
_ACTIVE = (instrumentor_status.ACTIVE, instrumentor_status.DEGRADED)
_MODE, _REQUEST = guard("fastmcp.mode"), guard("fastmcp.request")


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


def _inject_trace_context(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def inject_trace_context(meta: Any = None) -> Any:
        return meta if _records_requests() else original(meta)

    return inject_trace_context


def _client_span(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def client_span(*args: Any, **kwargs: Any) -> Any:
        return nullcontext(INVALID_SPAN) if _records_requests() else original(*args, **kwargs)

    return client_span


def _records_requests() -> bool:
    """Return whether our ``mcp`` opens a span for each request of a client."""
    with _REQUEST:
        status = instrumentor_status.snapshot().get("otel_rl_mcp")
        is_active = status is not None and status["state"] in _ACTIVE
        return is_active and scope.enabled and not ownership.suppressed()
    return False


#: The trace context of our span is sent.
patch_telemetry = together(
    replacing("telemetry_mode", _telemetry_mode), replacing("inject_trace_context", _inject_trace_context)
)
#: Inside of this span ours begins.
patch_client = replacing("client_span", _client_span)
