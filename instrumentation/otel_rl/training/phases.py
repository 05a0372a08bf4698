"""Phases of a step: a span plus the duration histogram that belongs to it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.context import get_current
from opentelemetry.trace import INVALID_SPAN

from otel_rl import clock
from otel_rl.internal_errors import guard
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics, spans
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import attribute_values, deferral, drops
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.scope import enabled
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from typing_extensions import Self

    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.telemetry.scope import Scope

#: The four phases that the RL conventions name have a histogram each; all others share ``rl.phase.duration``.
_DURATIONS = {
    spans.RL_SAMPLE.type: metrics.RL_SAMPLE_DURATION,
    spans.RL_REWARD.type: metrics.RL_REWARD_DURATION,
    spans.RL_TRAIN.type: metrics.RL_TRAIN_DURATION,
    spans.RL_SYNC.type: metrics.RL_SYNC_DURATION,
}


class Phase:
    """One phase; ``start`` and ``end`` for hooks that come in pairs, or a context manager.

    ``name`` is the value of ``rl.phase``: the span type without its ``rl.`` prefix.
    """

    __slots__ = (
        "_attributes",
        "_context",
        "_definition",
        "_has_duration",
        "_scope",
        "_start_time",
        "_started",
        "_thinned",
        "_token",
        "name",
        "span",
    )

    def __init__(
        self,
        definition: SpanDefinition,
        scope: Scope,
        attributes: Mapping[str, Any] | None = None,
        *,
        has_duration: bool = True,
    ) -> None:
        self._definition = definition
        #: False for a part of a phase of the same name, which counts as a whole.
        self._has_duration = has_duration
        self._scope = scope
        self._attributes = attributes
        self._token: Token[Context] | None = None
        self._context: Context | None = None
        self._started: float | None = None
        #: Not this rank's turn, see :mod:`otel_rl.training.steps`: the span is emitted only if the phase fails.
        self._thinned = False
        self._start_time: int | None = None
        self.name = definition.type.removeprefix("rl.")
        self.span: Span = INVALID_SPAN

    def start(self) -> Self:
        """Open the span below the current one; in a thread without one, below the open step."""
        with guard("phases.start"):
            if not enabled():
                return self
            step = steps.current()
            parent = get_current()
            if step is not None and not trace_api.get_current_span(parent).get_span_context().is_valid:
                parent = step.context
            if step is not None and step.thinned:
                self._thinned, self._start_time, self._context = True, clock.now(), parent
                drops.count(Signal.TRACES, steps.THINNED)
            else:
                self.span = self._start_span(parent)
                self._context = trace_api.set_span_in_context(self.span, parent)
                self._token = attach(self._context)
            self._started = time.perf_counter()
        return self

    def _start_span(self, parent: Context) -> Span:
        step = steps.current()
        values = {names.RL_PHASE: self.name, names.RL_LOOP_ITERATION: step.iteration if step else None}
        if self._attributes:
            values.update(self._attributes)
        if deferral.posting():
            return self._scope.start_posted_span(self._definition, values, parent, start_time=self._start_time)
        return self._scope.start_span(self._definition, attributes=values, context=parent, start_time=self._start_time)

    def end(self, error: BaseException | str | None = None, at: Moment | None = None) -> None:
        """Close the span and record the duration in seconds; a second call does nothing.

        ``error`` (an exception, or an ``error.type`` as text) marks the phase as failed; ``at`` says when it ended,
        unless now.
        """
        started, self._started = self._started, None
        if started is None:
            return
        with guard("phases.end"):
            ended = at or deferral.now()
            self.leave()
            if self._thinned and error is not None and self._context is not None:
                self.span = self._start_span(self._context)
            kind = attribute_values.error_type(error) if isinstance(error, BaseException) else error
            deferral.post(Signal.TRACES, lambda: self._record(ended.counter - started, kind, ended.wall))

    def _record(self, seconds: float, error: str | None, end_time: int) -> None:
        if self._has_duration:
            self._record_duration(seconds)
        self._scope.end_span(self.span, error, end_time)

    def _record_duration(self, seconds: float) -> None:
        metric = _DURATIONS.get(self._definition.type)
        if metric is not None:
            self._scope.record(metric, seconds, context=self._context)
        else:
            self._scope.record(metrics.RL_PHASE_DURATION, seconds, {names.RL_PHASE: self.name}, self._context)

    def leave(self) -> None:
        """Restore what was current before; :meth:`end` does it too."""
        token, self._token = self._token, None
        if token is not None:
            detach(token)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)
