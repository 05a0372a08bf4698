"""Phases of a step: spans, and the durations that belong to them.

``rl.sample``, ``rl.reward``, ``rl.train`` and ``rl.sync`` are exclusive: a step is in one of them at most. One that
begins inside another, in the same thread or task, suspends it. The suspended phase has several spans then, one for each
stretch: all but the last carry ``rl.suspended``, the last ``rl.active_duration``. Parts inside a suspended phase are
suspended with it. Waiting for data, evaluation and checkpoints suspend too, and are not suspended.
A decorated generator's phase runs beside its consumer: it suspends none and is not suspended.

Within a step the histograms of the four phases get one value per step: the time that the step spent in them.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry import trace as trace_api
from opentelemetry.context import Context, get_current
from opentelemetry.trace import INVALID_SPAN

from otel_rl.core.guard import guard
from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.recorder import flight
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics, spans
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import attribute_values, deferral, drops, judging, lifecycle, progress
from otel_rl.telemetry.context import attach, detach, may_change
from otel_rl.telemetry.scope import enabled
from otel_rl.training import position, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Token
    from types import TracebackType

    from opentelemetry.trace import Span
    from typing_extensions import Self

    from otel_rl.flight_recorder.ring import Handle
    from otel_rl.semconv.definitions import MetricDefinition, SpanDefinition
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.telemetry.judging import Judging
    from otel_rl.telemetry.scope import Scope

#: The four phases that the RL conventions name have a histogram each; all others share ``rl.phase.duration``.
_DURATIONS = {
    spans.RL_SAMPLE.type: metrics.RL_SAMPLE_DURATION,
    spans.RL_REWARD.type: metrics.RL_REWARD_DURATION,
    spans.RL_TRAIN.type: metrics.RL_TRAIN_DURATION,
    spans.RL_SYNC.type: metrics.RL_SYNC_DURATION,
}
#: Phases that suspend one of the four.
INTERRUPTING = frozenset({*_DURATIONS, spans.RL_DATA_WAIT.type, spans.RL_EVALUATE.type, spans.RL_CHECKPOINT.type})

_START, _END = guard("phases.start"), guard("phases.end")

_EMPTY = Context()

#: The innermost phase of this thread or task. A token of it is only accepted where it was set: so a task that runs
#: beside a phase, and knows it from its copy of the context, does not suspend it.
_innermost: ContextVar[Phase | None] = ContextVar("otel_rl_phase", default=None)
#: Returns the phase that the caller's thread or task is in.
innermost: Callable[[], Phase | None] = _innermost.get


class RunningPart(Protocol):
    """A part of a phase that is suspended with it."""

    def suspend(self, now: Moment) -> None:
        """Note that the phase has been suspended."""

    def resume(self, now: Moment, before: Context, after: Context) -> None:
        """Note that the phase goes on; its context was ``before`` and is ``after`` now."""


class PhaseOwner(Protocol):
    """The loop of a trainer, whose hooks may leave phases open inside of others."""

    def close_down_to(self, kind: str, error: BaseException | None, phase: PhaseHandle | None = None) -> None:
        """End the phase ``kind``, or this very ``phase``, and those opened after it, innermost first."""


class PhaseHandle:
    """A phase or a part of one; ends once, by :meth:`end` or by leaving the ``with`` block."""

    __slots__ = ()
    definition: SpanDefinition
    #: The trainer's loop that has opened it, if one has.
    loop: PhaseOwner | None

    def end(self, error: BaseException | None = None) -> None:
        """End it, with what a trainer has left open inside it; a second call does nothing.

        ``error`` marks it as failed.
        """
        loop = self.loop
        if loop is None:
            self.close(error)
            return
        try:
            loop.close_down_to(self.definition.type, error, self)
        except Exception as ours:  # noqa: BLE001 - counted
            _END.handle(ours)

    def close(self, error: BaseException | None = None) -> None:
        """End it alone, as its loop does, or who holds it outside of a loop."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)


@dataclass(slots=True, eq=False, repr=False)
class Phase(PhaseHandle):
    """One phase; ``start`` and ``end`` for hooks that come in pairs, or a context manager.

    ``name`` is the value of ``rl.phase``: the span type without its ``rl.`` prefix. ``limit`` is the largest number of
    spans of this kind in a step; further ones are emitted only if they fail, and go into the histogram.
    """

    definition: SpanDefinition
    scope: Scope
    attributes: Mapping[str, Any] | None = None
    limit: int | None = None
    _: KW_ONLY
    #: False for a part of a phase of the same name, which counts as a whole, and which it does not interrupt.
    has_duration: bool = True
    #: False for one that runs beside others, as a generator does beside its consumer: it suspends none.
    is_exclusive: bool = True
    loop: PhaseOwner | None = None
    name: str = field(init=False)
    span: Span = INVALID_SPAN
    #: The one in which its present stretch runs, and what that is made of.
    context: Context = field(init=False)
    _base: Context = field(init=False)
    step: steps.Step | None = None
    #: What model calls inside see of a reward.
    judging: Judging | None = None
    #: The thread that started it.
    thread: int = 0
    #: Parts that have begun in it and are running.
    parts: list[RunningPart] = field(default_factory=list)
    _forks: int = field(default_factory=lambda: lifecycle.forks)
    _flight: Handle | None = None
    _token: Token[Context] | None = None
    _mark: Token[Phase | None] | None = None
    #: True where it is a part of the step's time, and not of a rollout's.
    _of_step: bool = False
    #: Since when it has been active; None before its start, after its end, and while it is suspended.
    _since: Moment | None = None
    #: Seconds of the stretches that have ended.
    _active: float = 0.0
    _suspended: bool = False
    _left: bool = False
    #: Phases that this one has suspended, innermost first.
    _interrupted: list[Phase] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = self.definition.type.removeprefix("rl.")
        self.context = self._base = _EMPTY

    def start(self, at: Moment | None = None) -> Self:
        """Open the span below the current one, in a thread without one below the open step; ``at`` says since when."""
        try:
            if not enabled():
                return self
            now = at or deferral.now()
            if self.interrupts:
                self._interrupt(now)
            self.step, self._base, self._of_step = position.place()
            if self.definition is spans.RL_REWARD:
                self.judging, self._base = judging.begin(self._base)
            self.thread = get_ident()
            self._begin_stretch(now)
        except Exception as ours:  # noqa: BLE001 - counted
            _START.handle(ours)
        return self

    def close(self, error: BaseException | str | None = None, at: Moment | None = None) -> None:
        """Close the span and record the duration in seconds; a second call does nothing.

        ``error`` (an exception, or an ``error.type`` as text) marks the phase as failed; ``at`` says when it ended,
        unless now.
        """
        if self._since is None and not self._suspended:
            return
        if self.judging is not None:
            self.judging.has_ended = True
        if self._forks != lifecycle.forks:
            self.leave()
            return
        try:
            now = at or deferral.now()
            in_place = self.leave()
            kind = attribute_values.error_type(error) if isinstance(error, BaseException) else error
            if kind is not None:
                steps.note_failure(error, self.step, self.name)
            values = self._judge_totals()
            stretches = self._active
            span = self._end_stretch(now, failed=kind is not None)
            self._suspended = False
            whole = self._active
            metric = self._metric_to_record(whole)
            if span is not INVALID_SPAN or metric is not None:
                # What the I/O thread needs, and nothing that holds memory of the program.
                if stretches:
                    values[names.RL_ACTIVE_DURATION] = whole
                deferral.post(Signal.TRACES, lambda: self._record(span, metric, whole, values, kind, now.wall))
            if self._interrupted:
                self._resume_interrupted(now, in_place=in_place)
        except Exception as ours:  # noqa: BLE001 - counted
            _END.handle(ours)

    def _judge_totals(self) -> dict[str, Any]:
        """Return what the judges of a reward were asked that no row has; its step adds it up."""
        values = {} if self.judging is None else self.judging.totals()
        if values and self.judging is not None and self.judging.around is None and self.step is not None:
            from otel_rl.training import step_judges  # noqa: PLC0415 - few rewards ask a judge

            step_judges.add(self.step, values)
        return values

    def _metric_to_record(self, seconds: float) -> MetricDefinition | None:
        """Return the histogram for this phase; None where there is none, or where the step records it when it ends."""
        if not self.has_duration:
            return None
        metric = _DURATIONS.get(self.definition.type)
        step = self.step if self._of_step else None
        if step is None or not step.is_open:
            return metric or metrics.RL_PHASE_DURATION
        if metric is not None:
            step.add(metric, self.scope, seconds)
        else:
            step.add_duration(self.definition.type, self.scope, seconds)
        return None

    def _record(
        self,
        span: Span,
        metric: MetricDefinition | None,
        seconds: float,
        values: Mapping[str, Any],
        error: str | None,
        end_time: int,
    ) -> None:
        if metric is not None:
            labels = {names.RL_PHASE: self.name} if metric is metrics.RL_PHASE_DURATION else None
            self.scope.record(metric, seconds, labels, self.context)
        if span is not INVALID_SPAN:
            if values:
                span.set_attributes(values)
            self.scope.end_span(span, error, end_time)

    def leave(self) -> bool:
        """Restore what was current before; :meth:`close` does it too. False where it was not current here."""
        self._left = True
        mark, self._mark = self._mark, None
        was_current = mark is not None and _reset(mark)
        token, self._token = self._token, None
        detach(token)
        return was_current

    def abandon(self) -> None:
        """End it where it was never left; what is current stays, also where that began in this phase."""
        # The tokens would put back what was current before it, of a step long ended.
        self._mark = self._token = None
        self.close()

    def __enter__(self) -> Self:
        # That of a trainer's loop has started.
        return self.start() if self.loop is None else self

    # -- stretches -------------------------------------------------------------------------------------------------

    def _begin_stretch(self, now: Moment, *, in_place: bool = True) -> None:
        """``in_place`` is False where another thread or task runs this: the phase does not become current in it."""
        self._since = now
        self._flight = flight.begin(layout.PHASE, self.name)
        progress.phase_began(id(self), self.name)
        if in_place and may_change():
            self._mark = _innermost.set(self)
        step = self.step
        if step is not None and step.thinned:
            drops.count(Signal.TRACES, step.thinned)
        elif self.limit is None or step is None or step.take_span(self.definition.type, self.limit):
            self.span = self._start_span(now.wall)
            self.context = trace_api.set_span_in_context(self.span, self._base)
            self._attach(in_place=in_place)
            return
        self.context = self._base
        if self.judging is not None:
            self._attach(in_place=in_place)

    def _attach(self, *, in_place: bool) -> None:
        # A token from before a suspension: something of the program's own is current, and stays so.
        if in_place and self._token is None:
            self._token = attach(self.context)

    def _start_span(self, start_time: int) -> Span:
        step, context = self.step, self._base
        values = {names.RL_PHASE: self.name, names.RL_LOOP_ITERATION: step.iteration if step else None}
        if self.attributes:
            values.update(self.attributes)
        return self.scope.start_posted_span(self.definition, values, context, start_time=start_time)

    def _end_stretch(self, now: Moment, *, failed: bool = False) -> Span:
        """Add up the time and give the span of the stretch away; one that was left out is made for a failure."""
        since, self._since = self._since, None
        if since is None:
            return INVALID_SPAN
        record, self._flight = self._flight, None
        flight.end(record, failed)
        progress.phase_ended(id(self))
        span, self.span = self.span, INVALID_SPAN
        if span is INVALID_SPAN and failed:
            span = self._start_span(since.wall)
        self._active += now.counter - since.counter
        return span

    # -- suspension ------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """True between its start and its end, except while it is suspended; in the process that started it."""
        return self._since is not None and self.is_own

    @property
    def is_own(self) -> bool:
        """False in a forked child: the process above ends it."""
        return self._forks == lifecycle.forks

    @property
    def interrupts(self) -> bool:
        """True for a phase that suspends one of the four."""
        return self.has_duration and self.is_exclusive and self.definition.type in INTERRUPTING

    @property
    def can_be_suspended(self) -> bool:
        """True for the four, and no others."""
        return self.has_duration and self.is_exclusive and self.definition.type in _DURATIONS

    @property
    def outer(self) -> Phase | None:
        """The phase that this one has begun in, in the same thread or task or in the one it was started from."""
        before = self._mark.old_value if self._mark is not None else None
        return before if isinstance(before, Phase) else None

    @property
    def is_around(self) -> bool:
        """True when the current context is in the same trace."""
        context = get_current()
        if context is self.context:
            return True
        here = trace_api.get_current_span(context).get_span_context().trace_id
        return here == trace_api.get_current_span(self.context).get_span_context().trace_id

    def suspend(self, now: Moment) -> bool:
        """End this stretch; False where the phase runs in another thread or task, beside the caller."""
        if self._mark is None or not _reset(self._mark):
            return False
        self._mark = None
        self._suspended = True
        token = self._token
        # Where the program has made something of its own current meanwhile, that stays current.
        if token is not None and get_current() is self.context and detach(token):
            self._token = None
        for part in self.parts:
            part.suspend(now)
        span = self._end_stretch(now)
        if span is not INVALID_SPAN:
            deferral.post(Signal.TRACES, lambda: _end_suspended(self.scope, span, now.wall))
        return True

    def resume(self, now: Moment, around: Phase | None, *, in_place: bool) -> bool:
        """Begin another stretch, below the new one of the phase ``around`` it; False when the phase has ended.

        It becomes current only ``in_place``: in the thread or task that it was suspended in.
        """
        if not self._suspended or self._left:
            return False
        self._suspended = False
        if around is not None and around.span is not INVALID_SPAN:
            self._base = trace_api.set_span_in_context(around.span, self._base)
        before = self.context
        self._begin_stretch(now, in_place=in_place)
        for part in self.parts:
            part.resume(now, before, self.context)
        return True

    def _interrupt(self, now: Moment) -> None:
        """Suspend the exclusive phase around the current position, and the parts of it that are open."""
        chain: list[Phase] = []
        phase = _innermost.get()
        while phase is not None and phase.is_active and phase.is_around:
            chain.append(phase)
            if phase.interrupts:
                break
            phase = phase.outer
        if not chain or not chain[-1].can_be_suspended:
            return
        for phase in chain:
            if not phase.suspend(now):
                return
            self._interrupted.append(phase)

    def _resume_interrupted(self, now: Moment, *, in_place: bool) -> None:
        around: Phase | None = None
        while self._interrupted:
            phase = self._interrupted.pop()
            if phase.resume(now, around, in_place=in_place):
                around = phase


def _end_suspended(scope: Scope, span: Span, end_time: int) -> None:
    span.set_attribute(names.RL_SUSPENDED, True)
    scope.end_span(span, None, end_time)


def _reset(mark: Token[Phase | None]) -> bool:
    """Reset the phase of this context; return False for a token of another thread or task, or where none may change."""
    if not may_change():
        return False
    try:
        _innermost.reset(mark)
    except (ValueError, RuntimeError):
        return False
    return True


def is_inside(name: str) -> bool:
    """Return whether this thread or task is in a phase of this name, directly or not."""
    phase = innermost()
    while phase is not None and phase.is_active:
        if phase.name == name:
            return True
        phase = phase.outer
    return False


def leave_those_of_parent() -> None:
    """In a forked child: be in no phase that was open at the fork."""
    phase = innermost()
    if phase is not None and not phase.is_own and may_change():
        _innermost.set(None)
