"""Parts of a phase that nothing else begins in: forward and backward passes, the optimizer, log-probabilities.

They are measured between the trainer's computations, where our code finds the processor's caches cold and each line
costs several times more. So a part keeps two moments and no more. Its span is never current: what the program begins
inside it becomes a child of the phase around it. An I/O thread makes the span after its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import attribute_values, deferral, drops
from otel_rl.training import phases, position, steps

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.telemetry import Scope
    from otel_rl.telemetry.deferral import Moment


class _Stretch(NamedTuple):
    since: Moment
    until: Moment
    context: Context


class Part:
    """A part that runs from now on, in ``step``; :meth:`end` ends it. Suspended with the phase around it.

    Without ``has_span`` it only goes into ``rl.phase.duration``, unless it fails.
    """

    __slots__ = (
        "_around",
        "_context",
        "_definition",
        "_ended",
        "_has_span",
        "_scope",
        "_seconds",
        "_since",
        "_step",
        "_stretches",
    )

    def __init__(self, definition: SpanDefinition, scope: Scope, step: steps.Step, *, has_span: bool) -> None:
        if has_span and step.thinned:
            drops.count(Signal.TRACES, steps.THINNED)
            has_span = False
        self._definition = definition
        self._scope = scope
        self._step = step
        self._has_span = has_span
        self._stretches: list[_Stretch] = []
        self._seconds = 0.0
        self._ended = False
        self._context = position.place()[1]
        self._around = phases.innermost()
        if self._around is not None:
            self._around.parts.append(self)
        self._since: Moment | None = deferral.now()

    def end(self, error: BaseException | str | None = None) -> None:
        """Record it; ``error`` marks it as failed. A second call does nothing."""
        if self._ended:
            return
        self._ended = True
        self.suspend(deferral.now())
        around = self._around
        if around is not None and self in around.parts:
            around.parts.remove(self)
        kind = attribute_values.error_type(error) if isinstance(error, BaseException) else error
        phase = self._definition.type.removeprefix("rl.")
        if self._step.is_open:
            self._step.durations_of(phase, self._scope).append(self._seconds)
        if self._has_span or kind is not None or not self._step.is_open:
            in_step = self._step.is_open
            deferral.post(Signal.TRACES, lambda: self._record(phase, kind, in_step=in_step))

    def suspend(self, now: Moment) -> None:
        """The phase around it has been suspended."""
        if self._since is not None:
            self._stretches.append(_Stretch(self._since, now, self._context))
            self._seconds += now.counter - self._since.counter
            self._since = None

    def resume(self, now: Moment, before: Context, after: Context) -> None:
        """The phase around it goes on; its context was ``before`` and is ``after`` now."""
        if self._since is None and not self._ended:
            self._since = now
            if self._context is before:
                self._context = after

    def _record(self, phase: str, error: str | None, *, in_step: bool) -> None:
        if not in_step:
            self._scope.record(metrics.RL_PHASE_DURATION, self._seconds, {names.RL_PHASE: phase}, self._context)
        if not self._has_span and error is None:
            return
        last = len(self._stretches) - 1
        for number, stretch in enumerate(self._stretches):
            values: dict[str, Any] = {names.RL_PHASE: phase, names.RL_LOOP_ITERATION: self._step.iteration}
            if number < last:
                values[names.RL_SUSPENDED] = True
            elif last:
                values[names.RL_ACTIVE_DURATION] = self._seconds
            span = self._scope.start_span(
                self._definition, attributes=values, context=stretch.context, start_time=stretch.since.wall
            )
            self._scope.end_span(span, error if number == last else None, stretch.until.wall)
