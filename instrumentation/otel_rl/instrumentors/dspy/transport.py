"""Requests of ``lm15``: plain HTTP over sockets, so that no instrumentor of an HTTP client sees them."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from otel_rl.core.guard import guard
from otel_rl.inference.http import senders
from otel_rl.inference.http.chunks import AsyncChunks, Chunks

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.inference.http.base_call import HttpCall
    from otel_rl.instrumentors.patching import Patches

_BEGIN, _ANSWERED = guard("dspy.begin"), guard("dspy.answered")


def patch_sync(module: ModuleType, patches: Patches) -> None:
    """Patch the transport of synchronous calls."""
    patches.replace(module, "StdlibTransport.stream", _sends, required=True)


def patch_async(module: ModuleType, patches: Patches) -> None:
    """Patch the transport of asynchronous calls."""
    patches.replace(module, "StdlibAsyncTransport._do_stream", _sends_async, required=True)


def patch_responses(module: ModuleType, patches: Patches) -> None:
    """Learn when an answer has been read, or is let go."""
    for kind in ("TransportResponse", "AsyncTransportResponse"):
        patches.observe(module, f"{kind}._release_once", before=_released, required=True)


def _sends(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def stream(self: Any, request: Any) -> Any:
        call, request = _begin(request)
        if call is None:
            return original(self, request)
        try:
            response = original(self, request)
        except BaseException as error:
            call.failed(error)
            raise
        return _answered(call, response, Chunks)

    return stream


def _sends_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def _do_stream(self: Any, request: Any) -> Any:
        call, request = _begin(request)
        if call is None:
            return await original(self, request)
        try:
            response = await original(self, request)
        except BaseException as error:
            call.failed(error)
            raise
        return _answered(call, response, AsyncChunks)

    return _do_stream


def _begin(request: Any) -> tuple[HttpCall | None, Any]:
    """Return the call, and the request with the trace context."""
    with _BEGIN:
        url, calls, headers = urlsplit(request.url), senders.calls(), dict(request.headers)
        where = calls.Url(url.scheme, url.hostname or "", url.port, url.path)
        call = calls.begin("dspy", request.method, where, headers, request.body)
        added = [pair for pair in headers.items() if pair not in request.headers]
        return call, replace(request, headers=[*request.headers, *added]) if added else request
    return None, request


def _answered(call: HttpCall, response: Any, chunks: type[Chunks | AsyncChunks]) -> Any:
    call.leave()
    with _ANSWERED:
        call.answered(response, response.status, None)
        if call.is_followed_by(response, response):
            response._chunks = chunks(call, response._chunks)  # type: ignore[arg-type]  # noqa: SLF001
    return response


def _released(response: Any, *, body_consumed: bool) -> None:
    call = senders.call_of(response)
    if call is not None:
        call.closed(complete=body_consumed)
