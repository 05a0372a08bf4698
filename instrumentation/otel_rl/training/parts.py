"""Parts of a phase that nothing else begins in: forward and backward passes, the optimizer, log-probabilities.

They are measured between the trainer's computations, where our code finds the processor's caches cold and each line
costs ten times more. So a part keeps two moments and little more. Its span is never current: what the program begins
inside it becomes a child of the phase around it. An I/O thread makes the span after its end.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, InitVar, dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.core import clock
from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.recorder import flight
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import attribute_values, deferral, drops
from otel_rl.telemetry.context import get_current
from otel_rl.training import position, steps
from otel_rl.training.phases import PhaseHandle, innermost

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from otel_rl.flight_recorder.ring import Handle
    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.telemetry import Scope
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.training.phases import Phase, PhaseOwner


class _Stretch(NamedTuple):
    """When it ended, how many seconds it took, and where in the trace it was."""

    end: int
    seconds: float
    context: Context


@dataclass(slots=True, eq=False, repr=False)
class Part(PhaseHandle):
    """A part that runs from now on, in ``step``. Suspended with the phase around it.

    Without ``has_span`` it only goes into ``rl.phase.duration``, unless it fails. ``handles`` has handles of the flight
    recorder by the type of the span, of earlier parts: making one costs as much as all the rest. Each has one owner: a
    part takes it out, and puts it back when it has ended.
    """

    definition: SpanDefinition
    scope: Scope
    step: InitVar[steps.Step]
    _: KW_ONLY
    has_span: bool
    handles: dict[str, Handle] = field(default_factory=dict)
    loop: PhaseOwner | None = None
    _step: steps.Step | None = field(init=False)
    #: Those before a suspension.
    _stretches: list[_Stretch] | None = None
    _around: Phase | None = None
    _context: Context = field(init=False)
    _flight: Handle | None = None
    #: None while it is suspended.
    _since: float | None = field(init=False)

    def __post_init__(self, step: steps.Step) -> None:
        self._step, around = step, innermost()
        # ``innermost`` may return one of another step or thread, because contexts are copied. This part is not
        # suspended with that phase.
        expected = step.context
        if around is not None and around.step is step and around.thread == get_ident():
            self._around, expected = around, around.context
            around.parts.append(self)
        self._context = expected if get_current() is expected else position.place()[1]
        self._begin_in_ring()
        self._since = clock.counter()

    def close(self, error: BaseException | None = None) -> None:
        """Record it; ``error`` marks it as failed. A second call does nothing."""
        now = clock.counter()
        step, self._step = self._step, None
        if step is None or not step.is_own:
            return
        self._end_in_ring(error is not None)
        around = self._around
        if around is not None and self in around.parts:
            around.parts.remove(self)
        if error is None and self._stretches is None and not self.has_span and step.is_open:
            # Of many micro-batches all but the first few.
            step.add_duration(self.definition.type, self.scope, now - (self._since or now))
            return
        self._end(step, now, attribute_values.error_type(error) if error is not None else None)

    def _begin_in_ring(self) -> None:
        before = self.handles.pop(self.definition.type, None)
        self._flight = flight.begin_again(before) or flight.begin(layout.PHASE, _name(self.definition))

    def _end_in_ring(self, failed: bool) -> None:
        # Held by this call alone: where a signal handler raises, the handle ends with it.
        handle, self._flight = self._flight, None
        if handle is not None:
            flight.end(handle, failed)
            self.handles[self.definition.type] = handle

    def _end(self, step: steps.Step, now: float, error: str | None) -> None:
        stretches = self._stretches or []
        if self._since is not None:
            stretches.append(_Stretch(clock.now(), now - self._since, self._context))
        seconds = sum(stretch.seconds for stretch in stretches)
        in_step, definition, scope = step.is_open, self.definition, self.scope
        if in_step:
            step.add_duration(definition.type, scope, seconds)
        if self.has_span and step.thinned:
            drops.count(Signal.TRACES, step.thinned)
            self.has_span = False
        if not in_step:
            labels = {names.RL_PHASE: _name(definition)}
            context = self._context
            deferral.post(Signal.METRICS, lambda: scope.record(metrics.RL_PHASE_DURATION, seconds, labels, context))
        if self.has_span or error is not None:
            step.post(lambda: _record(definition, scope, step, stretches, seconds, error))

    def suspend(self, now: Moment) -> None:
        """Suspend it with the phase around it."""
        self._end_in_ring(False)
        if self._since is not None:
            self._stretches = [*(self._stretches or ()), _Stretch(now.wall, now.counter - self._since, self._context)]
            self._since = None

    def resume(self, now: Moment, before: Context, after: Context) -> None:
        """Resume it with the phase around it, whose context was ``before`` and is ``after`` now."""
        if self._since is None and self._step is not None:
            self._since = now.counter
            self._begin_in_ring()
            if self._context is before:
                self._context = after


def _name(definition: SpanDefinition) -> str:
    """Return the value of ``rl.phase``."""
    return definition.type.removeprefix("rl.")


def _record(
    definition: SpanDefinition,
    scope: Scope,
    step: steps.Step,
    stretches: list[_Stretch],
    seconds: float,
    error: str | None,
) -> None:
    last = len(stretches) - 1
    for number, stretch in enumerate(stretches):
        values: dict[str, Any] = {
            names.RL_PHASE: _name(definition),
            names.RL_LOOP_ITERATION: step.iteration,
        }
        if number < last:
            values[names.RL_SUSPENDED] = True
        elif last:
            values[names.RL_ACTIVE_DURATION] = seconds
        begun = stretch.end - round(stretch.seconds * 1e9)
        span = scope.start_span(definition, attributes=values, context=stretch.context, start_time=begun)
        scope.end_span(span, error if number == last else None, stretch.end)
