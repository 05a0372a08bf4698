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
from otel_rl.telemetry import drops
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
        "_scope",
        "_start_time",
        "_started",
        "_thinned",
        "_token",
        "name",
        "span",
    )

    def __init__(self, definition: SpanDefinition, scope: Scope, attributes: Mapping[str, Any] | None = None) -> None:
        self._definition = definition
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
            parent = None
            if step is not None and not trace_api.get_current_span().get_span_context().is_valid:
                parent = step.context
            if step is not None and step.thinned:
                self._thinned, self._start_time, self._context = True, clock.now(), parent or get_current()
                drops.count(Signal.TRACES, steps.THINNED)
            else:
                self.span = self._start_span(parent)
                self._context = trace_api.set_span_in_context(self.span, parent)
                self._token = attach(self._context)
            self._started = time.perf_counter()
        return self

    def _start_span(self, parent: Context | None) -> Span:
        step = steps.current()
        values = {names.RL_PHASE: self.name, names.RL_LOOP_ITERATION: step.iteration if step else None}
        return self._scope.start_span(
            self._definition,
            attributes={**values, **(self._attributes or {})},
            context=parent,
            start_time=self._start_time,
        )

    def end(self, error: BaseException | str | None = None) -> None:
        """Close the span and record the duration in seconds; a second call does nothing.

        ``error`` (an exception, or an ``error.type`` as text) marks the phase as failed.
        """
        started, self._started = self._started, None
        if started is None:
            return
        with guard("phases.end"):
            elapsed = time.perf_counter() - started
            if self._token is not None:
                detach(self._token)
            if self._thinned and error is not None:
                self.span = self._start_span(self._context)
            metric = _DURATIONS.get(self._definition.type)
            if metric is not None:
                self._scope.record(metric, elapsed, context=self._context)
            else:
                self._scope.record(metrics.RL_PHASE_DURATION, elapsed, {names.RL_PHASE: self.name}, self._context)
            self._scope.end_span(self.span, error)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)
