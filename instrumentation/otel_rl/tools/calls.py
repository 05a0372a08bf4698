"""Tool calls: one ``execute_tool`` span and one duration per call, whoever else is watching."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.context import get_current
from opentelemetry.trace import INVALID_SPAN

from otel_rl.core.guard import guard
from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.recorder import flight
from otel_rl.semconv import attributes, events, metrics, spans
from otel_rl.semconv.attributes import ErrorTypeValues
from otel_rl.telemetry import lifecycle, open_trajectory, progress, sampling
from otel_rl.telemetry.content_capture import capture_content, content_as_json
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.open_spans import add, mark_error
from otel_rl.telemetry.scope import enabled, has_our_provider
from otel_rl.tools import open_tools, outcomes
from otel_rl.tools.attempts import Attempt
from otel_rl.tools.open_tools import OpenTool
from otel_rl.tools.sizes import plain_size

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from typing_extensions import Self

    from otel_rl.flight_recorder.ring import Handle
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.telemetry.scope import Scope
    from otel_rl.tools.outcomes import Failure

OPERATION = "execute_tool"
#: Scopes of spans whose owners record no duration of a tool, or one under a name of their own.
_UNMEASURED = frozenset({"autogen-core", "pydantic-ai", "strands.telemetry.tracer"})
#: On each span of OpenInference, which records spans and nothing else. It is there from the start on:
#: https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
OPENINFERENCE_KIND = "openinference.span.kind"


def current_tool_span(name: str, own_scope: str) -> Span | None:
    """Return the current span where it is another instrumentor's ``execute_tool`` span for this call."""
    span = trace_api.get_current_span()
    tool = open_tools.here()
    if tool is not None and tool.span is span:
        return span if tool.name == name and tool.scope != own_scope else None
    if not has_our_provider(span):
        return None
    if _scope_of(span) == own_scope:
        # A tool that calls itself: the inner call is a call of its own.
        return None
    values = getattr(span, "attributes", None) or {}
    # Some set the operation at the end only.
    is_tool = is_tool_span(span) or getattr(span, "name", None) == f"{OPERATION} {name}"
    named = values.get(attributes.GEN_AI_TOOL_NAME, name)
    if values.get(OPENINFERENCE_KIND) == "TOOL":
        is_tool, named = True, values.get("tool.name", getattr(span, "name", None))
    return span if is_tool and named == name else None


def _scope_of(span: Span) -> str | None:
    return getattr(getattr(span, "instrumentation_scope", None), "name", None)


def is_tool_span(span: Span) -> bool:
    """Return whether this is an ``execute_tool`` span of whoever, where it is sampled."""
    return (getattr(span, "attributes", None) or {}).get(attributes.GEN_AI_OPERATION_NAME) == OPERATION


def _measures(span: Span) -> bool:
    """Return whether the owner of ``span`` records durations, too; False if its span cannot be seen from here."""
    if span is INVALID_SPAN or _scope_of(span) in _UNMEASURED:
        return False
    return OPENINFERENCE_KIND not in (getattr(span, "attributes", None) or {})


@dataclass(slots=True, eq=False, repr=False)
class ToolCall:
    """``with ToolCall(scope, "search") as call``: times the call and marks its outcome.

    A failure that the tool reports without raising is given by :meth:`fail` or :meth:`result`. Where an
    ``execute_tool`` span of this tool is current already, that span is enriched and neither a second span nor a second
    duration is recorded. The trajectory counts it once, too: a span of another instrumentor counts nothing there.

    ``metric_name`` is the tool's name on the metric where ``name`` is not a tool's (a model made it up).
    ``within`` is the context to start in, by default the current one. Pass ``has_span=False`` if
    another instrumentor records the call in a span that is not current: then it only counts in the trajectory.
    """

    #: Arguments and results are measured here, and not by the instrumentor.
    _measures_sizes = True
    #: It counts in its trajectory.
    _is_counted = True

    scope: Scope
    name: str
    call_id: str | None = None
    arguments: object = None
    metric_name: str | None = None
    within: Context | None = None
    has_span: bool = True
    span: Span = INVALID_SPAN
    _failure: Failure | None = None
    #: The span is ours.
    is_owned: bool = True
    _outcome: str = outcomes.OK
    _forks: int = field(default_factory=lambda: lifecycle.forks)
    _flight: Handle | None = None
    _started: float | None = None
    _token: Token[Context] | None = None
    _tool: OpenTool | None = None
    _attempt: Attempt | None = None

    def fail(self, kind: str | Failure) -> None:
        """Mark the call as failed; ``kind`` becomes ``error.type`` (low cardinality, such as ``timeout``)."""
        self._failure = outcomes.declared(kind) if isinstance(kind, str) else kind

    def result(self, value: object) -> None:
        """Record what the tool returned; its content only when content capture is on.

        An exception object is a failure like one that was raised, unless :meth:`fail` has given another.
        """
        with guard("tools.result"):
            self._failure = self._failure or outcomes.returned(value)
            self._outcome = outcomes.of_result(value)
            if self._attempt is not None:
                self._attempt.returned(value)
            if not self.span.is_recording():
                return
            self._add_exit_code(value)
            size = plain_size(value) if self._measures_sizes else None
            if size is not None:
                add(self.span, {attributes.RL_TOOL_RESULT_SIZE: size})
            if capture_content():
                content = content_as_json(value)
                if content is not None:
                    self.span.set_attribute(attributes.GEN_AI_TOOL_CALL_RESULT, content)

    def unknown(self) -> None:
        """Mark it as failed since no tool of this name exists: a model made it up, so it is never on a metric."""
        self.metric_name = ErrorTypeValues.OTHER
        self.fail(outcomes.UNKNOWN_TOOL)
        self.scope.event(events.RL_TOOL_UNKNOWN, attributes={attributes.GEN_AI_TOOL_NAME: self.name})

    def _add_exit_code(self, value: object) -> None:
        code = outcomes.exit_code(value)
        if code is not None:
            self.span.set_attribute(attributes.PROCESS_EXIT_CODE, code)

    def start(self) -> Self:
        """Open the span and make it current."""
        with guard("tools.start"):
            if enabled():
                self._start()
        # The program may let them go before the tool ends.
        self.arguments = self.within = None
        return self

    def _start(self) -> None:
        self._started = time.perf_counter()
        progress.event_loop()
        self._flight = flight.begin(layout.TOOL, self.metric_name or self.name)
        if self.within is not None:
            self._token = attach(self.within)
        if not self.has_span:
            self.is_owned = False
            self._open(get_current())
            return
        owner = self._find_owner()
        if owner is not None:
            self.is_owned = False
            self.span = owner
            around = open_tools.here()
            # What another instrumentor of ours has opened for this call, whether it knows its span or not.
            if around is None or (around.span is not None and around.span is not owner):
                self._open(get_current())
            return
        self.span = self._open_span()
        self._open(trace_api.set_span_in_context(self.span))

    def _open(self, context: Context) -> None:
        """Let what it calls know that it is inside, and count it in the trajectory."""
        # First: whatever becomes of the rest, what the tool calls is inside of it.
        span = self.span if self.has_span else None
        self._tool = OpenTool(self.name, self.scope.name, span, is_measured=self.has_span)
        token = attach(open_tools.context_with(self._tool, context))
        # That of `within` leaves both contexts.
        self._token = self._token or token
        trajectory = open_trajectory.current()
        size = plain_size(self.arguments) if self._measures_sizes and self.arguments is not None else None
        values = {attributes.RL_TOOL_ARGUMENTS_SIZE: size}
        if trajectory is not None and self._is_counted:
            self._attempt = Attempt(trajectory, self.name, self.arguments, size, self.call_id)
            values[attributes.RL_TOOL_RETRY] = self._attempt.retry or None
        if self.span.is_recording():
            add(self.span, {name: value for name, value in values.items() if value is not None})

    def _find_owner(self) -> Span | None:
        return current_tool_span(self.name, self.scope.name)

    def _open_span(self) -> Span:
        values: dict[str, Any] = {
            attributes.GEN_AI_OPERATION_NAME: OPERATION,
            attributes.GEN_AI_TOOL_NAME: self.name,
            attributes.GEN_AI_TOOL_TYPE: "function",
            attributes.GEN_AI_TOOL_CALL_ID: self.call_id,
            attributes.GEN_AI_TOOL_CALL_ARGUMENTS: self._captured_arguments(),
        }
        trajectory = open_trajectory.current()
        if trajectory is not None:
            values[attributes.RL_ROLLOUT_TURN] = trajectory.turn
        return self.scope.start_span(spans.GEN_AI_EXECUTE_TOOL, f"{OPERATION} {self.name}", attributes=values)

    def _captured_arguments(self) -> str | None:
        return content_as_json(self.arguments) if self.arguments is not None and capture_content() else None

    def end(self, error: BaseException | str | None = None, at: Moment | None = None) -> None:
        """Close the span; an exception wins over a failure reported by :meth:`fail`. ``at`` says when, unless now.

        Text is what :meth:`fail` takes.

        A forked child only leaves the call of its parent: the parent ends it.
        """
        started, self._started = self._started, None
        if started is None:
            return
        with guard("tools.end"):
            self.leave()
            if isinstance(error, str):
                self.fail(error)
                error = None
            if self._tool is not None:
                self._tool.has_ended = True
            if self._forks != lifecycle.forks:
                return
            inner = self._tool.inner if self._tool is not None else None
            failure = (self._failure or inner) if error is None else outcomes.raised(error)
            progress.call_ended()
            if self._tool is not None:
                was_left = failure is not None and failure.outcome == outcomes.CANCELLED
                open_tools.ended(self._tool, failed=failure is not None and not was_left, was_left=was_left)
            if self._attempt is not None:
                self._attempt.ended(failed=failure is not None)
            record, self._flight = self._flight, None
            flight.end(record, failure is not None)
            elapsed = (at.counter if at else time.perf_counter()) - started
            label = self.metric_name or self.name
            sampling.keep_if_slow(self.span, elapsed, OPERATION, label, attributes.GEN_AI_TOOL_NAME)
            outcome = self._settle(failure, inner, error)
            kind = None if failure is None else failure.kind
            if self.is_owned or (self.has_span and not _measures(self.span)):
                self._measure(elapsed, label, kind, outcome)
            if self.is_owned:
                self.scope.end_span(self.span, kind, at.wall if at else None)
            elif kind is not None:
                mark_error(self.span, kind)

    def _settle(self, failure: Failure | None, inner: Failure | None, error: BaseException | None) -> str:
        """Put the outcome on the span, and on the tool around that this call stands for.

        A call inside, ``inner``, that has added to this span may know more than that the tool failed. The span of
        another instrumentor may yet fail after a call that went well.
        """
        outcome = self._outcome if failure is None else failure.outcome
        if outcome == outcomes.TOOL_ERROR and inner is not None:
            outcome = inner.outcome
        if error is not None and self.span.is_recording():
            self._add_exit_code(error)
        if self.span.is_recording() and (self.is_owned or failure is not None):
            add(self.span, {attributes.RL_TOOL_OUTCOME: outcome})
        around = open_tools.here()
        if around is not None and around.name == self.name:
            around.inner = failure and failure._replace(outcome=outcome)
        return outcome

    def _measure(self, elapsed: float, label: str, kind: str | None, outcome: str) -> None:
        self.scope.record(
            metrics.GEN_AI_EXECUTE_TOOL_DURATION,
            elapsed,
            {attributes.GEN_AI_TOOL_NAME: label, attributes.ERROR_TYPE: kind, attributes.RL_TOOL_OUTCOME: outcome},
            trace_api.set_span_in_context(self.span),
        )

    def ended(self, result: Any, error: BaseException | None, take: Callable[..., None] | None = None) -> None:
        """Close the span with what the tool returned or raised.

        ``take(call, result)`` reads a result that has the tool's own inside, instead of :meth:`result`; it may raise.
        """
        try:
            if error is None:
                (take or type(self).result)(self, result)
        finally:
            self.end(error)

    def leave(self) -> None:
        """Restore what was current before the start; a second call does nothing."""
        token, self._token = self._token, None
        detach(token)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.end(error)


def record_unknown(scope: Scope, name: str, call_id: str | None = None) -> None:
    """Record that a model asked for a tool which does not exist: nobody runs it."""
    if not scope.enabled:
        return
    with ToolCall(scope, name, call_id, metric_name=ErrorTypeValues.OTHER) as call:
        call.unknown()
