"""The hooks in mcp 2.x, which makes spans and sends the trace context by itself.

Its spans stay out while ours are open: those of its clients have neither a tool's name nor a result that says
``isError``, and those of both ends hold the messages of exceptions, which may be content.
https://github.com/modelcontextprotocol/python-sdk/blob/v2.3.0/src/mcp/shared/jsonrpc_dispatcher.py
"""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import INVALID_SPAN, SpanKind

from otel_rl.inference import ownership
from otel_rl.instrumentors.mcp import connections, receiving, sending
from otel_rl.instrumentors.mcp.operations import McpRequest
from otel_rl.instrumentors.mcp.receiving import ReceivedRequest
from otel_rl.instrumentors.mcp.sending import SentRequest, scope
from otel_rl.semconv import attributes
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import ContextVar
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

_REQUEST_ID = attributes.JSONRPC_REQUEST_ID
#: The requests that are under way in a context, by the kind of span that stands for them.
_CURRENT: dict[Any, ContextVar[Any]] = {SpanKind.CLIENT: sending.current, SpanKind.SERVER: receiving.current}
_SPAN, _INJECT = guard("mcp.library_span"), guard("mcp.inject")


def patch_own_telemetry(module: ModuleType, patches: Patches) -> None:
    """Patch the two functions by which the library makes spans and sends the trace context."""
    patches.replace(module, "otel_span", _otel_span, required=True)
    patches.replace(module, "inject_trace_context", _inject_trace_context, required=True)


def patch_dispatcher(module: ModuleType, patches: Patches) -> None:
    """Patch how requests are sent over a connection."""
    patches.observe(module, "JSONRPCDispatcher.send_raw_request", begin=_begin_sending, end=_end_sending, required=True)


def patch_direct_dispatcher(module: ModuleType, patches: Patches) -> None:
    """Patch how requests are sent to a server in the same process."""
    patches.observe(module, "DirectDispatcher.send_raw_request", begin=_begin_sending, end=_end_sending, required=True)


def patch_runner(module: ModuleType, patches: Patches) -> None:
    """Patch how a server answers requests."""
    patches.observe(module, "ServerRunner._on_request", begin=_begin_handling, end=_end_handling, required=True)


def patch_client_session(module: ModuleType, patches: Patches) -> None:
    """Patch how a client answers what its server asks for."""
    patches.observe(module, "ClientSession._on_request", begin=_begin_answering, end=_end_handling, required=True)


def _begin_sending(dispatcher: Any, method: str, params: Any, *_: Any, **__: Any) -> SentRequest | None:
    if not scope.enabled or ownership.suppressed():
        return None
    connection = connections.connection_of(getattr(dispatcher, "_write_stream", None))
    return SentRequest(McpRequest(method, params), connection).start()


def _end_sending(sent: SentRequest, result: Any, error: BaseException | None) -> None:
    if error is None:
        sent.answered(result)
    else:
        sent.failed(error)


def _begin_handling(runner: Any, context: Any, method: str, params: Any) -> ReceivedRequest | None:
    return _received(context, method, params, runner.connection)


def _begin_answering(session: Any, context: Any, method: str, params: Any) -> ReceivedRequest | None:
    return _received(context, method, params, session)


def _received(context: Any, method: str, params: Any, peer: Any) -> ReceivedRequest | None:
    if not scope.enabled or ownership.suppressed():
        return None
    connection = _connection_of(context)
    connection.version = peer.protocol_version
    meta = params.get("_meta") if isinstance(params, dict) else None
    return ReceivedRequest(McpRequest(method, params, context.request_id), connection).start(meta)


def _connection_of(context: Any) -> connections.Connection:
    over_http = getattr(context.message_metadata, "request_context", None)
    if over_http is not None:
        return connections.of_http_request(over_http)
    # The context that denies a server its own requests keeps the dispatcher's one inside.
    inner = getattr(context, "_inner", context)
    return connections.connection_of(getattr(getattr(inner, "_dispatcher", None), "_write_stream", None))


def _end_handling(received: ReceivedRequest, result: Any, error: BaseException | None) -> None:
    if error is None:
        received.answers(result)
    received.end(error)


def _otel_span(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def otel_span(*args: Any, **kwargs: Any) -> Any:
        is_ours = False
        with _SPAN:
            is_ours = _is_ours(**kwargs)
        return nullcontext(INVALID_SPAN) if is_ours else original(*args, **kwargs)

    return otel_span


def _is_ours(kind: Any = None, attributes: Any = None, **_: Any) -> bool:
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


def _inject_trace_context(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def inject_trace_context(*args: Any, **kwargs: Any) -> Any:
        sent = sending.current.get()
        if sent is None:
            return original(*args, **kwargs)
        with _INJECT:
            sent.inject(kwargs["meta"] if "meta" in kwargs else args[0], others=True)
        return None

    return inject_trace_context
