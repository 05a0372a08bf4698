"""Tool calls: one ``execute_tool`` span and one duration per call, whoever else is watching."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.context import get_current
from opentelemetry.trace import INVALID_SPAN

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.recorder import flight
from otel_rl.internal_errors import guard
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.telemetry import lifecycle, open_trajectory, progress, sampling
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.telemetry.content_capture import capture_content, content_as_json
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.open_spans import mark_error
from otel_rl.telemetry.scope import enabled
from otel_rl.tools import open_tools
from otel_rl.tools.open_tools import OpenTool

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from typing_extensions import Self

    from otel_rl.flight_recorder.ring import Handle
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.telemetry.open_trajectory import OpenTrajectory
    from otel_rl.telemetry.scope import Scope

OPERATION = "execute_tool"


def current_tool_span(name: str, own_scope: str) -> Span | None:
    """The current span when it is the ``execute_tool`` span that another instrumentor has opened for this call."""
    span = trace_api.get_current_span()
    tool = open_tools.here()
    if tool is not None and tool.span is span:
        return span if tool.name == name and tool.scope != own_scope else None
    scope = getattr(span, "instrumentation_scope", None)
    if scope is not None and scope.name == own_scope:
        # A tool that calls itself: the inner call is a call of its own.
        return None
    values = getattr(span, "attributes", None) or {}
    return span if is_tool_span(span) and values.get(attributes.GEN_AI_TOOL_NAME, name) == name else None


def is_tool_span(span: Span) -> bool:
    """True for an ``execute_tool`` span of whoever, where it is sampled."""
    return (getattr(span, "attributes", None) or {}).get(attributes.GEN_AI_OPERATION_NAME) == OPERATION


class ToolCall:
    """``with ToolCall(scope, "search") as call``: times the call and marks its outcome.

    A failure that the tool reports without raising is told by :meth:`fail`. Where an ``execute_tool`` span of this tool
    is current already, that span is enriched and neither a second span nor a second duration is recorded. The
    trajectory counts it once, too: a span of another instrumentor counts nothing there.

    ``metric_name`` is the tool's name on the metric where ``name`` is not a tool's (a model made it up).
    """

    __slots__ = (
        "_arguments",
        "_call_id",
        "_failure",
        "_flight",
        "_forks",
        "_metric_name",
        "_name",
        "_owned",
        "_scope",
        "_started",
        "_token",
        "_tool",
        "_trajectory",
        "_type",
        "span",
    )

    def __init__(
        self,
        scope: Scope,
        name: str,
        call_id: str | None = None,
        tool_type: str = "function",
        arguments: object = None,
        metric_name: str | None = None,
    ) -> None:
        self._scope = scope
        self._name = name
        self._metric_name = metric_name
        self._call_id = call_id
        self._type = tool_type
        self._arguments = arguments
        self._failure: str | None = None
        self._owned = True
        self._forks = lifecycle.forks
        self._flight: Handle | None = None
        self._started: float | None = None
        self._token: Token[Context] | None = None
        self._tool: OpenTool | None = None
        self._trajectory: OpenTrajectory | None = None
        self.span: Span = INVALID_SPAN

    def fail(self, kind: str) -> None:
        """The call failed; ``kind`` becomes ``error.type`` (low cardinality, e.g. ``tool_error``, ``timeout``)."""
        self._failure = kind

    def result(self, value: object) -> None:
        """Record what the tool returned; kept only when content capture is on."""
        with guard("tools.result"):
            if capture_content() and self.span.is_recording():
                content = content_as_json(value)
                if content is not None:
                    self.span.set_attribute(attributes.GEN_AI_TOOL_CALL_RESULT, content)

    def start(self) -> Self:
        """Open the span and make it current."""
        with guard("tools.start"):
            if not enabled():
                return self
            self._started = time.perf_counter()
            progress.event_loop()
            self._flight = flight.begin(layout.TOOL, self._metric_name or self._name)
            owner = self._find_owner()
            if owner is not None:
                self._owned = False
                self.span = owner
                if open_tools.here() is None:
                    self._open(get_current())
                return self
            self.span = self._open_span()
            self._open(trace_api.set_span_in_context(self.span))
        return self

    def _open(self, context: Context) -> None:
        """Count it in the trajectory, and let what it calls know that it is inside."""
        self._trajectory = open_trajectory.of()
        self._tool = OpenTool(self._name, self._scope.name, self.span)
        self._token = attach(open_tools.context_with(self._tool, context))

    def _find_owner(self) -> Span | None:
        return current_tool_span(self._name, self._scope.name)

    def _open_span(self) -> Span:
        values: dict[str, Any] = {
            attributes.GEN_AI_OPERATION_NAME: OPERATION,
            attributes.GEN_AI_TOOL_NAME: self._name,
            attributes.GEN_AI_TOOL_TYPE: self._type,
            attributes.GEN_AI_TOOL_CALL_ID: self._call_id,
            attributes.GEN_AI_TOOL_CALL_ARGUMENTS: self._captured_arguments(),
        }
        trajectory = open_trajectory.of()
        if trajectory is not None:
            values[attributes.RL_ROLLOUT_TURN] = trajectory.turn
        return self._scope.start_span(spans.GEN_AI_EXECUTE_TOOL, f"{OPERATION} {self._name}", attributes=values)

    def _captured_arguments(self) -> str | None:
        return content_as_json(self._arguments) if self._arguments is not None and capture_content() else None

    def end(self, error: BaseException | None = None, at: Moment | None = None) -> None:
        """Close the span; an exception wins over a failure reported by :meth:`fail`. ``at`` says when, unless now.

        A forked child only leaves the call of its parent: the parent ends it.
        """
        started, self._started = self._started, None
        if started is None:
            return
        with guard("tools.end"):
            self.leave()
            if self._tool is not None:
                self._tool.has_ended = True
            if self._forks != lifecycle.forks:
                return
            kind = error_type(error) if error is not None else self._failure
            progress.call_ended()
            if self._trajectory is not None:
                self._count(self._trajectory, failed=kind is not None)
            record, self._flight = self._flight, None
            if record is not None:
                flight.end(record, kind is not None)
            elapsed = (at.counter if at else time.perf_counter()) - started
            label = self._metric_name or self._name
            sampling.keep_if_slow(self.span, elapsed, OPERATION, label, attributes.GEN_AI_TOOL_NAME)
            if not self._owned:
                if kind is not None:
                    mark_error(self.span, kind)
                return
            self._measure(elapsed, label, kind)
            self._scope.end_span(self.span, kind, at.wall if at else None)

    def _count(self, trajectory: OpenTrajectory, *, failed: bool) -> None:
        trajectory.tool_call_ended(failed=failed)

    def _measure(self, elapsed: float, label: str, kind: str | None) -> None:
        self._scope.record(
            metrics.GEN_AI_EXECUTE_TOOL_DURATION,
            elapsed,
            {attributes.GEN_AI_TOOL_NAME: label, attributes.ERROR_TYPE: kind},
            trace_api.set_span_in_context(self.span),
        )

    def leave(self) -> None:
        """Restore what was current before the start; a second call does nothing."""
        token, self._token = self._token, None
        if token is not None:
            detach(token)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)
