"""The hooks of ``aiohttp``, which reads the body of an answer after the request has returned."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from otel_rl import own_cpu
from otel_rl.served_engines import calls
from otel_rl.served_engines.calls import Url
from otel_rl.telemetry import Scope, guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.served_engines.calls import ControlCall, ModelCall

scope = Scope("aiohttp")
_BEGIN, _ANSWERED, _FAILED = (guard(f"aiohttp.{site}") for site in ("begin", "answered", "failed"))


def patch_client(module: ModuleType, patches: Patches) -> None:
    """Patch ``aiohttp.client``."""
    patches.replace(module, "ClientSession._request", _requests, required=True)


def patch_response(module: ModuleType, patches: Patches) -> None:
    """Patch ``aiohttp.client_reqrep``."""
    patches.observe(module, "ClientResponse.read", after=_read, required=True)
    patches.observe(module, "ClientResponse.json", after=_parsed, required=True)
    patches.observe(module, "ClientResponse.release", after=_closed, required=True)
    patches.observe(module, "ClientResponse.close", after=_closed, required=True)


def _requests(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def request(self: Any, method: str, str_or_url: Any, **kwargs: Any) -> Any:
        call = _timed_begin(self, method, str_or_url, kwargs)
        if call is None:
            return await original(self, method, str_or_url, **kwargs)
        try:
            response = await original(self, method, str_or_url, **kwargs)
        except BaseException as error:
            with _FAILED:
                call.failed(error)
            raise
        _timed_answered(call, response)
        return response

    return request


def _begin(session: Any, method: str, str_or_url: Any, kwargs: dict[str, Any]) -> ModelCall | ControlCall | None:
    """``kwargs`` gets the headers of the request with the trace context, in a mapping of their own."""
    with _BEGIN:
        try:
            url = session._build_url(str_or_url)  # noqa: SLF001 - with the base URL of the session
        except (AssertionError, TypeError, ValueError):
            # The request is about to fail with it.
            return None
        if not calls.may_be_one(method, url.path):
            return None
        where = Url(url.scheme, url.host or "", url.port, url.path)
        # The program's may be pairs, and may have a name twice.
        headers = sys.modules["multidict"].CIMultiDict(kwargs.get("headers") or ())
        given = kwargs.get("json")
        call = calls.begin(scope, method, where, headers, kwargs.get("data") if given is None else given)
        if call is not None:
            kwargs["headers"] = headers
        return call
    return None


def _answered(call: ModelCall | ControlCall, response: Any) -> None:
    with _ANSWERED:
        call.answered(response, response.status, None)


_timed_begin = own_cpu.timed("aiohttp.begin", _begin)
_timed_answered = own_cpu.timed("aiohttp.answered", _answered)


def _read(content: bytes, response: Any) -> None:
    calls.read(response, content)


def _parsed(value: Any, response: Any, **_: Any) -> None:
    calls.parsed(response, value)


def _closed(_: Any, response: Any) -> None:
    calls.closed(response, complete=response._body is not None)  # noqa: SLF001 - there is no public name
