"""The hooks of ``aiohttp``, which reads the body of an answer after the request has returned."""

from __future__ import annotations

import functools
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from otel_rl.core import own_cpu
from otel_rl.core.guard import guard
from otel_rl.inference.http import senders, services
from otel_rl.inference.http.paths import may_be_target, target_of
from otel_rl.telemetry import propagation

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.inference.http.base_call import HttpCall
    from otel_rl.instrumentors.patching import Patches

_BEGIN, _ANSWERED, _FAILED = (guard(f"aiohttp.{site}") for site in ("begin", "answered", "failed"))
_TRACEPARENT, _BAGGAGE = "traceparent", "baggage"
_REFUSED = 400
#: The call whose request is being made.
_within: ContextVar[HttpCall | None] = ContextVar("otel_rl_aiohttp_call", default=None)


def patch_client(module: ModuleType, patches: Patches) -> None:
    """Patch ``aiohttp.client``."""
    patches.replace(module, "ClientSession._request", _requests, required=True)


def patch_response(module: ModuleType, patches: Patches) -> None:
    """Patch ``aiohttp.client_reqrep``."""
    patches.observe(module, "ClientRequest.__init__", before=_requesting)
    patches.observe(module, "ClientResponse.read", begin=_begin_read, end=_end_read, required=True)
    patches.observe(module, "ClientResponse.json", after=_parsed, required=True)
    patches.observe(module, "ClientResponse.release", before=_closing, required=True)
    patches.observe(module, "ClientResponse.close", before=_closing, required=True)


def patch_streams(module: ModuleType, patches: Patches) -> None:
    """Patch ``aiohttp.streams``: all ways to read a body go through one method."""
    patches.replace(module, "StreamReader._read_nowait_chunk", _takes, required=True)
    patches.replace(module, "StreamReader._wait", _waits, required=True)
    patches.observe(module, "StreamReader.set_exception", before=_breaking_off, required=True)


def _requests(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def request(self: Any, method: str, str_or_url: Any, **kwargs: Any) -> Any:
        call = _timed_begin(self, method, str_or_url, kwargs)
        if call is None:
            return await original(self, method, str_or_url, **kwargs)
        within = _within.set(call)
        try:
            response = await original(self, method, str_or_url, **kwargs)
        except BaseException as error:
            with _FAILED:
                _failed(call, error)
            raise
        finally:
            _within.reset(within)
        _timed_answered(call, response)
        return response

    return request


def _begin(session: Any, method: str, str_or_url: Any, kwargs: dict[str, Any]) -> HttpCall | None:
    """``kwargs`` gets the headers of the request with the trace context, in a mapping of their own."""
    with _BEGIN:
        if isinstance(str_or_url, str) and not may_be_target(str_or_url) and not services.are_named():
            return None
        try:
            url = session._build_url(str_or_url)  # noqa: SLF001 - with the base URL of the session
        except (AssertionError, TypeError, ValueError):
            # The request is about to fail with it.
            return None
        place = url.scheme, url.host or "", url.port, url.path
        service = services.name_of(method, *place) if services.are_named() else None
        if service is None and target_of(method, url.path) is None:
            return None
        # The program's may be pairs, may have a name twice, and may be an iterator, which is read once.
        headers = kwargs["headers"] = sys.modules["multidict"].CIMultiDict(kwargs.get("headers") or ())
        given = kwargs.get("json")
        calls = senders.calls()
        where = calls.Url(*place)
        written = None if _TRACEPARENT in session.headers else headers
        if _BAGGAGE in session.headers and _BAGGAGE not in headers:
            # What a request says takes the place of what its session says: that is the program's, and stays.
            headers.extend((_BAGGAGE, value) for value in session.headers.getall(_BAGGAGE))
        call: HttpCall | None
        if service is not None:
            call = senders.begin_service("aiohttp", service, method, where, written)
            return call
        call = calls.begin("aiohttp", method, where, written, kwargs.get("data") if given is None else given)
        return call
    return None


def _requesting(_request: Any, _method: Any, url: Any, **given: Any) -> None:
    """Each redirect makes a request of its own, with the headers of the first one."""
    headers = given.get("headers")
    if headers is not None and _within.get() is not None:
        propagation.withhold(headers, url)


def _answered(call: HttpCall, response: Any) -> None:
    call.leave()
    with _ANSWERED:
        call.answered(response, response.status, None)
        if call.is_stream:
            _follow(response.content, response, call)
        return
    call.failed(None)


def _failed(call: HttpCall, error: BaseException) -> None:
    status = getattr(error, "status", None)
    if isinstance(status, int) and status >= _REFUSED:
        # Of a session with `raise_for_status`.
        call.leave()
        call.answered(error, status, None)
    call.failed(error)


_timed_begin = own_cpu.timed("aiohttp.begin", _begin)
_timed_answered = own_cpu.timed("aiohttp.answered", _answered)


def _begin_read(response: Any) -> Any:
    call = senders.call_of(response)
    if call is None:
        return None
    call.is_being_read = True
    return response


def _end_read(response: Any, content: bytes | None, error: BaseException | None) -> None:
    call = senders.call_of(response)
    if call is not None:
        call.is_being_read = False
    if error is None:
        senders.calls().read(response, content)
    else:
        senders.calls().broke_off(response, error)


def _parsed(value: Any, response: Any, **_: Any) -> None:
    senders.parsed(response, value)


def _closing(response: Any) -> None:
    call = senders.call_of(response)
    if call is None or call.is_being_read:
        return
    content = response._body  # noqa: SLF001 - there is no public name
    complete = content is not None or response.content.at_eof()
    error = response.content.exception() or _error_of_reader()
    senders.closed(response, complete=complete, content=content, error=error)


def _error_of_reader() -> BaseException | None:
    """Return the exception that is on its way through a method that reads: a timeout, or the end of the task."""
    error = sys.exc_info()[1]
    traceback = None if error is None else error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__") == "aiohttp.streams":
            return error
        traceback = traceback.tb_next
    # One of the program's own, around all of this.
    return None


# -- chunks --------------------------------------------------------------------------------------------------------


def _follow(reader: Any, response: Any, call: HttpCall) -> None:
    # What has come and was not read. The reader itself would refer to itself, and that of an empty body has none.
    left = getattr(reader, "_buffer", None)
    if left is not None and call.is_followed_by(reader, response):
        reader.on_eof(functools.partial(_has_ended, call, left))


def _has_ended(call: Any, left: Any) -> None:
    if not left:
        call.exhausted()


def _takes(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _read_nowait_chunk(self: Any, n: int) -> Any:
        data = original(self, n)
        call = senders.call_of(self)
        if call is not None:
            call.chunk(data)
            if self.at_eof():
                call.exhausted()
        return data

    return _read_nowait_chunk


def _waits(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def _wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = senders.call_of(self)
        if call is None:
            return await original(self, *args, **kwargs)
        call.awaits_chunk(True)
        try:
            return await original(self, *args, **kwargs)
        finally:
            call.awaits_chunk(False)

    return _wait


def _breaking_off(reader: Any, error: BaseException, *_: Any) -> None:
    call = senders.call_of(reader)
    if call is not None:
        call.broke_off(error)
