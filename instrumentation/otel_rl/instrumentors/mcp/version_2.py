"""The hooks in mcp 2.x, which makes spans and sends the trace context by itself.

Its spans stay out while ours are open: those of its clients have neither a tool's name nor a result that says
``isError``, and those of both ends hold the messages of exceptions, which may be content.
https://github.com/modelcontextprotocol/python-sdk/blob/v2.3.0/src/mcp/shared/jsonrpc_dispatcher.py
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import INVALID_SPAN, SpanKind

from otel_rl.instrumentors.mcp import receiving, sending
from otel_rl.instrumentors.mcp.operations import McpRequest
from otel_rl.instrumentors.patch_functions import bypassing, observing, together
from otel_rl.semconv import attributes
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from contextvars import ContextVar

    from otel_rl.instrumentors.mcp.receiving import ReceivedRequest
    from otel_rl.instrumentors.mcp.sending import SentRequest

_REQUEST_ID = attributes.JSONRPC_REQUEST_ID
#: The requests that are under way in a context, by the kind of span that stands for them.
_CURRENT: dict[Any, ContextVar[Any]] = {SpanKind.CLIENT: sending.current, SpanKind.SERVER: receiving.current}
_INJECT = guard("mcp.inject")


def _begin_sending(dispatcher: Any, method: str, params: Any, *_: Any, **__: Any) -> SentRequest | None:
    return sending.begin(McpRequest(method, params), dispatcher)


def _end_sending(sent: SentRequest, result: Any, error: BaseException | None) -> None:
    if error is None:
        sent.answered(result)
    else:
        sent.failed(error)


def _begin_handling(receiver: Any, context: Any, method: str, params: Any) -> ReceivedRequest | None:
    """Begin a request to the runner of a server, or to the session of a client."""
    # The context that denies a server its own requests keeps the dispatcher's one inside.
    dispatcher = getattr(getattr(context, "_inner", context), "_dispatcher", None)
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = getattr(receiver, "connection", receiver).protocol_version
    request = McpRequest(method, params, context.request_id)
    return receiving.begin(request, meta, dispatcher, context.message_metadata, version)


def _end_handling(received: ReceivedRequest, result: Any, error: BaseException | None) -> None:
    if error is None:
        received.answers(result)
    received.end(error)


def _is_ours(*_: Any, kind: Any = None, attributes: Any = None, **__: Any) -> bool:
    """Return whether a span of ours is open for the request that the library wants one for."""
    if kind not in _CURRENT:
        return False
    request = _CURRENT[kind].get()
    if request is None or request.in_library:
        # Of a notification, or in a context that was copied from another request's.
        return False
    request.in_library = True
    if kind is SpanKind.CLIENT:
        request.note({_REQUEST_ID: (attributes or {}).get(_REQUEST_ID)})
    return True


def _inject(meta: Any, *_: Any, **__: Any) -> None:
    with _INJECT:
        sent = sending.current.get()
        if sent is not None:
            sent.inject(meta, others=True)


#: The functions by which the library makes spans and sends the trace context.
patch_own_telemetry = together(
    bypassing("otel_span", when=_is_ours, result=lambda *_, **__: nullcontext(INVALID_SPAN)),
    bypassing("inject_trace_context", when=lambda *_, **__: sending.current.get() is not None, result=_inject),
)
#: How requests are sent over a connection, and to a server in the same process.
patch_dispatcher = observing("JSONRPCDispatcher.send_raw_request", begin=_begin_sending, end=_end_sending)
patch_direct_dispatcher = observing("DirectDispatcher.send_raw_request", begin=_begin_sending, end=_end_sending)
#: How a server answers requests, and a client what its server asks for.
patch_runner = observing("ServerRunner._on_request", begin=_begin_handling, end=_end_handling)
patch_client_session = observing("ClientSession._on_request", begin=_begin_handling, end=_end_handling)
