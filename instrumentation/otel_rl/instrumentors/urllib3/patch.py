"""How ``urllib3`` sends requests. Those of ``requests``, boto and others come past here too, and cost a look-up.

A redirect and a retry of its own are parts of one call: they run inside of the method that began.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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

_BEGIN, _ANSWERED, _FAILED = (guard(f"urllib3.{site}") for site in ("begin", "answered", "failed"))
#: Names of headers may be bytes.
_TRACEPARENTS = ("traceparent", b"traceparent")


def patch_connection_pool(module: ModuleType, patches: Patches) -> None:
    """Patch ``urllib3.connectionpool``, which programs use for one server."""
    patches.replace(module, "HTTPConnectionPool.urlopen", _opens_path, required=True)


def patch_pool_manager(module: ModuleType, patches: Patches) -> None:
    """Patch ``urllib3.poolmanager``, which follows redirects to other servers."""
    patches.replace(module, "PoolManager.urlopen", _opens_url, required=True)


def _opens_path(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def urlopen(self: Any, method: Any, url: Any, *args: Any, **kwargs: Any) -> Any:
        call = None
        if _is_of_interest(method, url) or _service_of_pool(self, method, url) is not None:
            body = args[0] if args else kwargs.get("body")
            given = args[1] if len(args) > 1 else kwargs.get("headers")
            where = self.scheme, self.host, self.port, url.partition("?")[0]
            call, headers = _timed_begin(method, where, self.headers if given is None else given, given, body)
            if call is not None and len(args) > 1:
                args = (args[0], headers, *args[2:])
            elif call is not None:
                kwargs["headers"] = headers
        # What lies below, of a program or of another tool, may read the arguments: they come as they were given.
        if call is None:
            return original(self, method, url, *args, **kwargs)
        return _sent(call, original, (self, method, url, *args), kwargs)

    return urlopen


def _opens_url(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def urlopen(self: Any, method: Any, url: Any, *args: Any, **kwargs: Any) -> Any:
        call = None
        if kwargs.get("headers") and kwargs.get("retries") is not None:
            _withhold_from_redirect(url, kwargs)
        if _is_of_interest(method, url) or _service_of_url(method, url) is not None:
            call, headers = _begin_at_url(self, method, url, kwargs)
            if call is not None:
                kwargs["headers"] = headers
        if call is None:
            return original(self, method, url, *args, **kwargs)
        return _sent(call, original, (self, method, url, *args), kwargs)

    return urlopen


def _is_of_interest(method: Any, url: Any) -> bool:
    """Return whether this is the path of an engine; the rest of the URL is looked at then."""
    with _BEGIN:
        try:
            if not may_be_target(url):
                return False
            path = url.partition("?")[0]
            if not path.startswith("/"):
                path = urlsplit(path).path
            return target_of(method, path) is not None
        except (AttributeError, TypeError, ValueError):
            # The request is about to fail with it.
            return False
    return False


def _service_of_pool(pool: Any, method: Any, url: Any) -> str | None:
    with _BEGIN:
        if services.are_named() and isinstance(url, str) and isinstance(method, str):
            return services.name_of(method, pool.scheme, pool.host, pool.port, url.partition("?")[0])
    return None


def _service_of_url(method: Any, url: Any) -> str | None:
    with _BEGIN:
        if services.are_named() and isinstance(url, str) and isinstance(method, str):
            try:
                parts = urlsplit(url)
                return services.name_of(method, parts.scheme, parts.hostname or "", parts.port, parts.path)
            except ValueError:
                # The request is about to fail with it.
                return None
    return None


def _withhold_from_redirect(url: str, kwargs: dict[str, Any]) -> None:
    """Withhold baggage where the manager calls itself for another address: an attempt before was sent there."""
    with _BEGIN:
        history = getattr(kwargs["retries"], "history", None)
        if not history or history[-1].redirect_location is None:
            return
        headers = kwargs["headers"]
        headers = headers.copy() if hasattr(headers, "copy") else dict(headers)
        propagation.withhold(headers, url)
        kwargs["headers"] = headers


def _begin_at_url(manager: Any, method: str, url: str, kwargs: dict[str, Any]) -> tuple[HttpCall | None, Any]:
    with _BEGIN:
        parts = urlsplit(url)
        where = parts.scheme, parts.hostname or "", parts.port, parts.path
        # The manager's own replace none that the program gives, be these None or empty (2.8, `PoolManager.urlopen`).
        sent = kwargs.get("headers", manager.headers)
        call, headers = _timed_begin(method, where, sent, kwargs.get("headers"), kwargs.get("body"))
        return call, headers
    return None, None


def _begin(method: str, where: tuple[str, str, int | None, str], all_headers: Any, given: Any, body: Any) -> Any:
    """Return the call, and the headers to send: a copy of the program's with the trace context."""
    with _BEGIN:
        if all_headers is not None and not hasattr(all_headers, "keys"):
            # No mapping: the request is about to fail with it.
            return None, given
        calls = senders.calls()
        headers = (
            {} if all_headers is None else all_headers.copy() if hasattr(all_headers, "copy") else dict(all_headers)
        )
        written = None if any(name.lower() in _TRACEPARENTS for name in headers) else headers
        service = services.name_of(method, *where) if services.are_named() else None
        if service is not None:
            call = senders.begin_service("urllib3", service, method, where, written)
        else:
            call = calls.begin("urllib3", method, calls.Url(*where), written, body)
        return (None, given) if call is None else (call, headers)
    return None, given


_timed_begin = own_cpu.timed("urllib3.begin", _begin)


def _sent(call: HttpCall, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        response = original(*args, **kwargs)
    except BaseException as error:
        with _FAILED:
            call.failed(error)
        raise
    _timed_answered(call, response)
    return response


def _answered(call: HttpCall, response: Any) -> None:
    call.leave()
    with _ANSWERED:
        # Read already, unless the program has asked for none of it.
        # The property would read it. Stand-ins for responses may have neither (vcrpy).
        content = getattr(response, "_body", None)
        history = getattr(getattr(response, "retries", None), "history", None) or ()
        call.was_sent(1 + sum(attempt.redirect_location is None for attempt in history))
        call.answered(response, response.status, content if isinstance(content, bytes) else None)
        if not content:
            call.is_followed_by(response, response)
        return
    call.failed(None)


_timed_answered = own_cpu.timed("urllib3.answered", _answered)
