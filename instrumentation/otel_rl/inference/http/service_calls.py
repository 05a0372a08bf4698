"""One request to a service that the user has named: a span, trace context, and a place in its rollout.

Only the head of an answer is looked at. No header, body or query is recorded. Requests outside of all rollouts
have spans as rollouts have: the first ones of a step, or of a minute outside of steps, and beyond these failed ones.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.context import get_current

from otel_rl.core import addresses, settings
from otel_rl.inference import ownership, servers
from otel_rl.inference.calls import current
from otel_rl.inference.http.base_call import FAILED, HttpCall, Url
from otel_rl.inference.http.services import PORTS
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import RlCallKindValues
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, drops, open_trajectory, progress, sampling
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.scope import Scope
from otel_rl.tools import open_tools
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

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
        host, port = servers.ascii_host(url.host), url.port or PORTS.get(url.scheme)
        place = f"[{host}]" if ":" in host else host
        at_port = "" if url.port is None or url.port == PORTS.get(url.scheme) else f":{url.port}"
        self._title = f"{method} {name}"
        self._labels: dict[str, str | None] = {attributes.RL_SERVICE: name}
        self._values: dict[str, Any] = {
            attributes.RL_SERVICE: name,
            attributes.HTTP_REQUEST_METHOD: method,
            attributes.URL_FULL: addresses.without_secrets(f"{url.scheme}://{place}{at_port}{url.path}"),
            attributes.SERVER_ADDRESS: host,
            attributes.SERVER_PORT: port,
        }
        self._name = name
        self._span: Span = trace_api.INVALID_SPAN
        self._context = get_current()
        self._token: Token[Context] | None = None
        reason = None if self._trajectory is not None else _left_out()
        if reason is None:
            self._span = self._start_span()
            self._context = trace_api.set_span_in_context(self._span)
            self._token = attach(self._context)
        else:
            drops.count(Signal.TRACES, reason)
        self.has_ended = False
        _open.set(self)
        progress.call_began(self, open_tools.here())

    def state(self) -> progress.CallState | None:
        """See :class:`otel_rl.telemetry.progress.OpenCall`."""
        if self.has_ended:
            return None
        span, parent = None if self._span is trace_api.INVALID_SPAN else self._span, progress.parent_of(self._span)
        return progress.CallState(RlCallKindValues.SERVICE, self._name, self._values, span, self._trajectory, parent)

    def _start_span(self) -> Span:
        return self._scope.start_span(
            spans.RL_SERVICE_CLIENT,
            self._title,
            attributes=self._values,
            context=self._context,
            start_time=self._began.wall,
        )

    def leave(self) -> None:
        """Make current again what was current before; a second call does nothing."""
        token, self._token = self._token, None
        detach(token)
        if _open.get() is self:
            _open.set(None)

    def failed(self, error: BaseException | None) -> None:
        """No answer came."""
        self._end(None if error is None else error_type(error))

    def answered(self, _response: object, status: int, _content: bytes | None) -> None:
        """End it: the head of the answer is there."""
        self._values[attributes.HTTP_RESPONSE_STATUS_CODE] = status
        if self._span.is_recording():
            self._span.set_attribute(attributes.HTTP_RESPONSE_STATUS_CODE, status)
        self._end(str(status) if status >= FAILED else None)

    def _end(self, error: str | None) -> None:
        self.leave()
        if self.has_ended:
            return
        self.has_ended = True
        progress.call_is_over(self, RlCallKindValues.SERVICE, self._name, failed=error is not None)
        seconds = deferral.now().counter - self._began.counter
        if self._trajectory is not None and not self._trajectory.has_ended:
            self._trajectory.service_call_ended(seconds, failed=error is not None)
        if error is not None and self._span is trace_api.INVALID_SPAN:
            self._span = self._start_span()
        self._scope.end_span(self._span, error)
        scope, context = self._scope, self._context
        labels = {**self._labels, attributes.ERROR_TYPE: error}
        deferral.post(Signal.METRICS, lambda: scope.record(metrics.RL_SERVICE_DURATION, seconds, labels, context))


class _Minute:
    """Requests outside of rollouts and steps that began in the current minute."""

    number = begun = 0


def _left_out() -> str | None:
    """Return why a request outside of all rollouts has no span unless it fails; None where it has one."""
    step, most = steps.where().step, settings.current().rollout_spans
    if step is not None and step.is_open:
        if step.thinned:
            return step.thinned
        return None if step.take_span(spans.RL_SERVICE_CLIENT.type, most) else sampling.ROLLOUT_SPANS
    minute = int(time.monotonic() // 60)
    if minute != _Minute.number:
        _Minute.number, _Minute.begun = minute, 0
    _Minute.begun += 1
    return None if _Minute.begun <= most else sampling.ROLLOUT_SPANS


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
