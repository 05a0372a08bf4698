"""One request that a service answers: a server span below the caller's, and the rollout of its baggage.

Calls, tools and scores count in that rollout's row: by its counters where it is open in this process, else by this
process's share of it, whose changes readers join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import get_current
from opentelemetry.trace import SpanKind

from otel_rl.core import addresses
from otel_rl.core.guard import guard
from otel_rl.semconv import attributes, spans
from otel_rl.semconv.attributes import RlCallKindValues
from otel_rl.telemetry import lifecycle, open_trajectory, progress, propagation
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.correlation import is_ours
from otel_rl.telemetry.scope import Scope
from otel_rl.training import trajectory_changes, trajectory_shares

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextvars import Token

    from opentelemetry.context import Context

_scope = Scope("services")
_FAILED = 500
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"})
_OTHER = "_OTHER"
_CARRIED = frozenset({"traceparent", "tracestate", "baggage"})
_BEGIN, _ENTER, _LEAVE, _END = (guard(f"services.{site}") for site in ("begin", "enter", "leave", "end"))
#: Stands for a host: the tokens in a path are found in a whole address.
_HOST = "http://service"


class ServedRequest:
    """A request; current between :meth:`enter` and :meth:`leave`, which may come again and again."""

    #: See :class:`otel_rl.telemetry.progress.OpenCall`.
    begin: progress.CallBegin | None = None
    last_inside = 0.0

    def __init__(self, method: str, scheme: str, path: str, headers: Mapping[str, str]) -> None:
        context = _joined(propagation.extract(headers))
        around = trace_api.get_current_span()
        own = around.get_span_context()
        asked = trace_api.get_current_span(context).get_span_context()
        kind = getattr(around, "kind", None)
        #: Another instrumentor has a span for this request: it stays the only one.
        self._is_owned = kind is SpanKind.SERVER and around.is_recording() and own.trace_id == asked.trace_id
        method = method.upper() if method.upper() in _METHODS else _OTHER
        values = {
            attributes.HTTP_REQUEST_METHOD: method,
            attributes.URL_PATH: addresses.without_secrets(f"{_HOST}{path}")[len(_HOST) :],
            attributes.URL_SCHEME: scheme,
        }
        self._span = (
            around
            if self._is_owned
            else _scope.start_span(spans.RL_SERVICE_SERVER, method, attributes=values, context=context)
        )
        self._context = _over(context, get_current(), self._span)
        #: Also where other instrumentors, inside of this, make a context of theirs current.
        self._trajectory = open_trajectory.current(context)
        self._tokens: tuple[Token[Context], Token[Any] | None] | None = None
        self._status: int | None = None
        self._has_ended = False
        self._name, self._values, self._asked = f"{method} {values[attributes.URL_PATH]}", values, asked.span_id
        progress.call_began(self)

    def state(self) -> progress.CallState | None:
        """See :class:`otel_rl.telemetry.progress.OpenCall`."""
        if self._has_ended:
            return None
        return progress.CallState(
            RlCallKindValues.REQUEST, self._name, self._values, self._span, self._trajectory, self._asked
        )

    def enter(self) -> None:
        """Make it current."""
        with _ENTER:
            trajectory = self._trajectory
            entered = None if trajectory is None else open_trajectory.enter(trajectory)
            self._tokens = attach(self._context), entered

    def leave(self) -> None:
        """Make current again what was current before."""
        tokens, self._tokens = self._tokens, None
        if tokens is not None:
            with _LEAVE:
                detach(tokens[0])
                if tokens[1] is not None:
                    open_trajectory.leave(tokens[1])

    def answers(self, status: object) -> None:
        """Note the status of the answer."""
        if isinstance(status, int):
            self._status = status

    def end(self, error: BaseException | None = None) -> None:
        """End it; a second call does nothing."""
        if self._has_ended:
            return
        self._has_ended = True
        progress.call_is_over(self, RlCallKindValues.REQUEST, self._name, failed=error is not None)
        with _END:
            if self._is_owned:
                return
            if self._status is not None and self._span.is_recording():
                self._span.set_attribute(attributes.HTTP_RESPONSE_STATUS_CODE, self._status)
            failure = None if error is None else error_type(error)
            if failure is None and self._status is not None and self._status >= _FAILED:
                failure = str(self._status)
            _scope.end_span(self._span, failure)


def begin(method: str, scheme: str, path: str, headers: Iterable[tuple[str, str]]) -> ServedRequest | None:
    """Begin to serve a request; None where that failed inside.

    Args:
        method: in any case.
        scheme: of the address.
        path: without the query.
        headers: names in any case; of one that comes twice the values are joined, as HTTP says.
    """
    with _BEGIN:
        carried: dict[str, str] = {}
        for name, value in headers:
            key = name.lower()
            if key in _CARRIED:
                carried[key] = f"{carried[key]},{value}" if key in carried else value
        return ServedRequest(method, scheme, path, carried)
    return None


def _joined(context: Context) -> Context:
    """Return ``context``, that of the request alone, as part of the rollout that it names."""
    identifier = baggage.get_baggage(attributes.RL_ROLLOUT_ID, context)
    if not isinstance(identifier, str):
        return context
    own = trace_api.get_current_span(context).get_span_context()
    trace = trace_api.format_trace_id(own.trace_id) if own.is_valid else None
    here = open_trajectory.find(identifier)
    is_here = here is not None and trace in (None, here.names[1]) and here.forks == lifecycle.forks
    if here is not None and is_here and not here.has_ended:
        return open_trajectory.context_with(here, context)
    lifecycle.before_shutdown(trajectory_changes.record)
    return trajectory_shares.in_child(context, is_forked=False)


def _over(request: Context, around: Context, span: trace_api.Span) -> Context:
    """Return ``around``, with the span, the ids and the rollout of the request and of no other one."""
    context = trace_api.set_span_in_context(span, around)
    for key in baggage.get_all(context):
        if is_ours(key):
            context = baggage.remove_baggage(key, context)
    for key, value in baggage.get_all(request).items():
        context = baggage.set_baggage(key, value, context)
    trajectory = open_trajectory.current(request)
    return (
        open_trajectory.shielded(context) if trajectory is None else open_trajectory.context_with(trajectory, context)
    )
