"""Requests of ``lm15``: plain HTTP over sockets, so that no instrumentor of an HTTP client sees them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from otel_rl.inference.http import senders
from otel_rl.inference.http.chunks import AsyncChunks, Chunks
from otel_rl.instrumentors.patch_functions import observing

if TYPE_CHECKING:
    from otel_rl.inference.http.base_call import HttpCall


def _begin(_: Any, request: Any) -> HttpCall | None:
    """Begin the call of a request, which is made for each attempt; its headers get the trace context."""
    url, calls, headers = urlsplit(request.url), senders.calls(), dict(request.headers)
    where = calls.Url(url.scheme, url.hostname or "", url.port, url.path)
    call: HttpCall | None = calls.begin("dspy", request.method, where, headers, request.body)
    request.headers += [pair for pair in headers.items() if pair not in request.headers]
    return call


def _answered(chunks: type[Any], call: HttpCall, response: Any, error: BaseException | None) -> None:
    if error is not None:
        call.failed(error)
        return
    call.leave()
    call.answered(response, response.status, None)
    if call.is_followed_by(response, response):
        response._chunks = chunks(call, response._chunks)  # noqa: SLF001 - iterated by all ways to read


def _released(response: Any, *, body_consumed: bool) -> None:
    call = senders.call_of(response)
    if call is not None:
        call.closed(complete=body_consumed)


patch_sync = observing("StdlibTransport.stream", begin=_begin, end=partial(_answered, Chunks))
patch_async = observing("StdlibAsyncTransport._do_stream", begin=_begin, end=partial(_answered, AsyncChunks))
#: An answer has been read, or is let go.
patch_responses = observing("TransportResponse._release_once", "AsyncTransportResponse._release_once", before=_released)
