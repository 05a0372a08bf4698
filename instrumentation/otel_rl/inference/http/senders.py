"""Wrappers around the one method of a client that sends a prepared request and returns the response.

Where the program gave the client an object to send as JSON, it is kept until then: nobody parses the body again. What
follows a request is imported with the first one to an engine: many programs only use these clients for other things.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from otel_rl.core.guard import guard
from otel_rl.inference.http import services
from otel_rl.inference.http.paths import target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.inference.http.base_call import HttpCall, Url
    from otel_rl.inference.http.calls import HttpModelCall

#: Objects that requests were built of, until they are sent.
_bodies: WeakKeyDictionary[object, Any] = WeakKeyDictionary()
#: Trace context that we have written into requests: a program may send one again.
_written: WeakKeyDictionary[object, str] = WeakKeyDictionary()
_ANSWERED = guard("served_engines.answered")
_TRACEPARENT = "traceparent"
_calls: Any = None


class Client(NamedTuple):
    """How the requests of a client are read.

    Attributes:
        library: of its instrumentor.
        head: method and path of a request.
        url: where a request goes, for ``calls.Url``.
        follow: reports to a call the chunks of a response that has not been read yet.
    """

    library: str
    head: Callable[[Any], tuple[str, str]]
    url: Callable[[Any], tuple[str, str, int | None, str]]
    follow: Callable[[Any, HttpCall], None]


def calls() -> Any:
    """Return the module :mod:`otel_rl.inference.http.calls`."""
    global _calls
    if _calls is None:
        _calls = import_module("otel_rl.inference.http.calls")
    return _calls


def begin_service(library: str, name: str, method: str, where: tuple[str, str, int | None, str], headers: Any) -> Any:
    """Follow a request to a named service, see :func:`otel_rl.inference.http.service_calls.begin`."""
    service_calls = import_module("otel_rl.inference.http.service_calls")
    return service_calls.begin(library, name, method, calls().Url(*where), headers)


def call_of(response: object) -> HttpModelCall | None:
    """Return the call that a response belongs to, until the program has parsed or closed it."""
    return None if _calls is None else _calls.call_of(response)


def parsed(response: object, value: Any) -> None:
    """Note that the program has parsed the body of ``response``."""
    if _calls is not None:
        _calls.parsed(response, value)


def closed(response: object, *, complete: bool, content: bytes | None, error: BaseException | None = None) -> None:
    """Note that the program has closed ``response``, because of ``error``; ``content`` is its body, if read in full."""
    if _calls is not None:
        _calls.closed(response, complete=complete, content=content, error=error)


def keep_body(request: object, body: Any, head: tuple[str, str]) -> None:
    """Keep the object that ``request`` was built of until the request is sent or dropped, where it is for an engine."""
    if body is not None and target_of(*head) is not None:
        _bodies[request] = body


def observe(patches: Any, owner: Any, name: str, client: Client, *, is_awaited: bool = False) -> None:
    """Follow ``send(self, request, ...)``, which may be awaited; ``client`` describes how the request is read."""
    begin, end = functools.partial(_begin, client), functools.partial(_end, client)
    patches.observe(owner, name, begin=begin, end=end, is_awaited=is_awaited, required=True)


def _begin(client: Client, _self: Any, request: Any, *_: Any, **__: Any) -> HttpCall | None:
    method, path = client.head(request)
    service = services.name_of(method, *client.url(request)) if services.are_named() else None
    if service is None and target_of(method, path) is None:
        return None
    _take_back(request.headers, request)
    call: HttpCall | None
    if service is not None:
        call = begin_service(client.library, service, method, client.url(request), request.headers)
    else:
        body = _bodies.pop(request, None)
        if body is None:
            # What was given as bytes is there already; a body that is a stream is not read.
            body = getattr(request, "_content", None) or getattr(request, "body", None)
        url: Url = calls().Url(*client.url(request))
        call = calls().begin(client.library, method, url, request.headers, body)
    if call is not None and call.trace_context is not None:
        _written[request] = call.trace_context
    return call


def _take_back(headers: Any, request: Any) -> None:
    """Take out what an attempt before has written: a program may send a request again."""
    if headers is not None and _TRACEPARENT in headers and headers[_TRACEPARENT] == _written.get(request):
        del headers[_TRACEPARENT]


def _end(client: Client, call: HttpCall, response: Any, error: BaseException | None) -> None:
    if error is not None:
        call.failed(error)
        return
    call.leave()
    with _ANSWERED:
        # False for a stream of requests.
        content = getattr(response, "_content", None) or None
        call.answered(response, response.status_code, content)
        if content is None:
            client.follow(response, call)
        return
    call.failed(None)
