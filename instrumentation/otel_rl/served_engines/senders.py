"""Wrappers around the one method of a client that sends a prepared request and returns the response.

Where the program gave the client an object to send as JSON, it is kept until then: nobody parses the body again.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from otel_rl import own_cpu
from otel_rl.served_engines import calls
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.served_engines.calls import ControlCall, ModelCall, Url
    from otel_rl.telemetry.scope import Scope

#: Objects that requests were built of, until they are sent.
_bodies: WeakKeyDictionary[object, Any] = WeakKeyDictionary()
_BEGIN, _ANSWERED, _FAILED = (guard(f"served_engines.{site}") for site in ("begin", "answered", "failed"))


class Client(NamedTuple):
    """How the requests of a client are read.

    Attributes:
        scope: of its instrumentor.
        head: method and path of a request.
        url: where a request goes.
    """

    scope: Scope
    head: Callable[[Any], tuple[str, str]]
    url: Callable[[Any], Url]


def keep_body(request: object, body: Any) -> None:
    """Keep the object that ``request`` was built of until the request is sent or dropped."""
    _bodies[request] = body


def sends(client: Client, original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory for ``send(self, request, ...)``; ``client`` says how the request is read."""
    begin, answered = _timed(client)

    @functools.wraps(original)
    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        call = begin(request)
        if call is None:
            return original(self, request, *args, **kwargs)
        try:
            response = original(self, request, *args, **kwargs)
        except BaseException as error:
            _failed(call, error)
            raise
        answered(call, response)
        return response

    return send


def sends_async(client: Client, original: Callable[..., Any]) -> Callable[..., Any]:
    """Factory for an asynchronous ``send``."""
    begin, answered = _timed(client)

    @functools.wraps(original)
    async def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        call = begin(request)
        if call is None:
            return await original(self, request, *args, **kwargs)
        try:
            response = await original(self, request, *args, **kwargs)
        except BaseException as error:
            _failed(call, error)
            raise
        answered(call, response)
        return response

    return send


def _timed(client: Client) -> tuple[Callable[..., Any], Callable[..., Any]]:
    begin = own_cpu.timed(f"{client.scope.name}.begin", functools.partial(_begin, client))
    return begin, own_cpu.timed(f"{client.scope.name}.answered", _answered)


def _begin(client: Client, request: Any) -> ModelCall | ControlCall | None:
    with _BEGIN:
        method, path = client.head(request)
        if calls.may_be_one(method, path):
            # What was given as bytes is there already; a body that is a stream is not read.
            body = _bodies.pop(request, None) or getattr(request, "_content", None) or getattr(request, "body", None)
            return calls.begin(client.scope, method, client.url(request), request.headers, body)
    return None


def _answered(call: ModelCall | ControlCall, response: Any) -> None:
    with _ANSWERED:
        # False for a stream of requests.
        call.answered(response, response.status_code, getattr(response, "_content", None) or None)


def _failed(call: ModelCall | ControlCall, error: BaseException) -> None:
    with _FAILED:
        call.failed(error)
