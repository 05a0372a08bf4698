"""The hooks in mcp 1.x: one method sends every request of both ends, and one handles those of a server."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

from otel_rl.core import own_cpu
from otel_rl.instrumentors.mcp import receiving, sending
from otel_rl.instrumentors.mcp.operations import McpRequest, field
from otel_rl.instrumentors.mcp.sending import SentRequest
from otel_rl.instrumentors.patch_functions import observing, replacing, together
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.instrumentors.mcp.receiving import ReceivedRequest

_SEND, _INJECT = guard("mcp.send"), guard("mcp.inject")


def _send_request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def send_request(self: Any, *args: Any, **kwargs: Any) -> Any:
        sent, args, kwargs = _timed_begin(self, args, kwargs)
        if sent is None:
            return await original(self, *args, **kwargs)
        try:
            result = await original(self, *args, **kwargs)
        except BaseException as error:
            _timed_failed(sent, error)
            raise
        _timed_answered(sent, result)
        return result

    return send_request


def _begin(session: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[SentRequest | None, Any, Any]:
    sent = None
    with _SEND:
        request = kwargs["request"] if "request" in kwargs else args[0]
        root = getattr(request, "root", request)
        operation = McpRequest(root.method, field(root, "params"), getattr(session, "_request_id", None))
        sent = sending.begin(operation, session)
        if sent is None:
            return None, args, kwargs
        with _INJECT:
            carrying = _carrying(request, sent)
            if "request" in kwargs:
                kwargs = {**kwargs, "request": carrying}
            else:
                args = (carrying, *args[1:])
    return sent, args, kwargs


_timed_begin = own_cpu.timed("mcp.begin", _begin)
_timed_answered = own_cpu.timed("mcp.answered", SentRequest.answered)
_timed_failed = own_cpu.timed("mcp.failed", SentRequest.failed)


def _carrying(request: Any, sent: SentRequest) -> Any:
    """Return a copy of ``request`` that carries the trace context over the wire; the program keeps its own as it was.

    The library encodes a request by ``model_dump`` and does nothing else with it.
    """
    carrying = copy.copy(request)

    def model_dump(*args: Any, **kwargs: Any) -> Any:
        data = request.model_dump(*args, **kwargs)
        with _INJECT:
            meta = dict((data.get("params") or {}).get("_meta") or {})
            sent.inject(meta)
            if meta:
                data["params"] = {**(data.get("params") or {}), "_meta": meta}
        return data

    vars(carrying)["model_dump"] = model_dump
    return carrying


def _begin_handling(_: Any, message: Any, request: Any, session: Any, *__: Any, **___: Any) -> ReceivedRequest | None:
    return _received(message, request, session)


def _begin_client_request(session: Any, responder: Any) -> ReceivedRequest | None:
    return _received(responder, responder.request.root, session)


def _received(message: Any, request: Any, session: Any) -> ReceivedRequest | None:
    operation = McpRequest(request.method, field(request, "params"), message.request_id)
    return receiving.begin(operation, message.request_meta, session, message.message_metadata, _version_of(session))


def _version_of(session: Any) -> str | None:
    # The version that the client asked for; the server answers with another one where it does not know it.
    version = getattr(getattr(session, "client_params", None), "protocolVersion", None)
    return version if isinstance(version, str) else None


def _responds(_: Any, response: Any) -> None:
    received = receiving.current.get()
    if received is not None:
        received.answers(getattr(response, "root", response))


def _end_handling(received: ReceivedRequest, _: Any, error: BaseException | None) -> None:
    received.end(error)


#: Every answer goes through ``respond``.
patch_session = together(
    replacing("BaseSession.send_request", _send_request), observing("RequestResponder.respond", before=_responds)
)
patch_server = observing("Server._handle_request", begin=_begin_handling, end=_end_handling)
#: A client answers what its server asks for.
patch_client_session = observing("ClientSession._received_request", begin=_begin_client_request, end=_end_handling)
