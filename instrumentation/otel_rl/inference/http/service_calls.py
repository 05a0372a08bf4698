"""One request to a service that the user has named: a span, trace context, and a place in its rollout.

Only the head of an answer is looked at. No header, body or query is recorded.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING

from opentelemetry import trace as trace_api

from otel_rl.core import addresses
from otel_rl.inference import ownership, servers
from otel_rl.inference.calls import current
from otel_rl.inference.http.base_call import HttpCall, Url
from otel_rl.semconv import attributes, spans
from otel_rl.semconv.attributes import RlCallKindValues
from otel_rl.telemetry import deferral, open_trajectory, progress
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.scope import Scope
from otel_rl.tools import open_tools

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from contextvars import Token

    from opentelemetry.context import Context

_FAILED = 400
_PORTS = {"http": 80, "https": 443}
#: Methods of HTTP that conventions name.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"})
OTHER_METHOD = "_OTHER"
_scope = lru_cache(maxsize=None)(Scope)


class ServiceCall(HttpCall):
    """A request to a service; it ends when the client returns the answer."""

    #: See :class:`otel_rl.telemetry.progress.OpenCall`.
    begin: progress.CallBegin | None = None
    last_inside = 0.0

    def __init__(self, scope: Scope, name: str, method: str, url: Url) -> None:
        self._scope = scope
        self._trajectory = open_trajectory.current()
        self._began = deferral.now()
        method = method.upper() if method.upper() in METHODS else OTHER_METHOD
        host, port = servers.ascii_host(url.host), url.port or _PORTS.get(url.scheme)
        place = f"[{host}]" if ":" in host else host
        at_port = "" if url.port is None or url.port == _PORTS.get(url.scheme) else f":{url.port}"
        values = {
            attributes.RL_SERVICE: name,
            attributes.HTTP_REQUEST_METHOD: method,
            attributes.URL_FULL: addresses.without_secrets(f"{url.scheme}://{place}{at_port}{url.path}"),
            attributes.SERVER_ADDRESS: host,
            attributes.SERVER_PORT: port,
        }
        self._values, self._name = values, name
        self._span = scope.start_span(spans.RL_SERVICE_CLIENT, f"{method} {name}", attributes=values)
        self.has_ended = False
        self._token: Token[Context] | None = attach(trace_api.set_span_in_context(self._span))
        _open.set(self)
        progress.call_began(self, open_tools.here())

    def state(self) -> progress.CallState | None:
        """See :class:`otel_rl.telemetry.progress.OpenCall`."""
        if self.has_ended:
            return None
        span, parent = self._span, progress.parent_of(self._span)
        return progress.CallState(RlCallKindValues.SERVICE, self._name, self._values, span, self._trajectory, parent)

    def leave(self) -> None:
        """Make current again what was current before; a second call does nothing."""
        token, self._token = self._token, None
        if token is not None:
            detach(token)
            _open.set(None)

    def failed(self, error: BaseException | None) -> None:
        """No answer came."""
        self._end(None if error is None else error_type(error))

    def answered(self, _response: object, status: int, _content: bytes | None) -> None:
        """End it: the head of the answer is there."""
        if self._span.is_recording():
            self._span.set_attribute(attributes.HTTP_RESPONSE_STATUS_CODE, status)
        self._end(str(status) if status >= _FAILED else None)

    def _end(self, error: str | None) -> None:
        self.leave()
        if self.has_ended:
            return
        self.has_ended = True
        progress.call_is_over(self, RlCallKindValues.SERVICE, self._name, failed=error is not None)
        if self._trajectory is not None and not self._trajectory.has_ended:
            seconds = deferral.now().counter - self._began.counter
            self._trajectory.service_call_ended(seconds, failed=error is not None)
        self._scope.end_span(self._span, error)


#: The call whose request this context sends: a client may send it through another one.
_open: ContextVar[ServiceCall | None] = ContextVar("otel_rl_service_call", default=None)


def begin(
    library: str, name: str, method: str, url: Url, headers: MutableMapping[str, str] | None
) -> ServiceCall | None:
    """Follow a request to the service ``name`` that is about to be sent, and write its trace context into ``headers``.

    Args:
        library: of the client.
        name: of the service.
        method: in any case.
        url: where it goes.
        headers: of the request; a ``traceparent`` in them stays as it is. None where nothing is to be written.

    Returns:
        None for a part of another request, and where nothing is recorded.
    """
    scope = _scope(library)
    around, model_call = _open.get(), current.get()
    is_part = (around is not None and not around.has_ended) or (model_call is not None and model_call.is_current)
    if is_part or not scope.enabled or ownership.suppressed():
        return None
    call = ServiceCall(scope, name, method, url)
    call.inject(headers, url.host)
    return call
