"""Phases of a step: spans, and the durations that belong to them.

``rl.sample``, ``rl.reward``, ``rl.train`` and ``rl.sync`` are exclusive: a step is in one of them at most. One that
begins inside another, in the same thread or task, suspends it. The suspended phase has several spans then, one for each
stretch: all but the last carry ``rl.suspended``, the last ``rl.active_duration``. Parts inside a suspended phase are
suspended with it. Waiting for data, evaluation and checkpoints suspend too, and are not suspended.

Within a step the histograms of the four phases get one value per step: the time that the step spent in them.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import get_current
from opentelemetry.trace import INVALID_SPAN

from otel_rl.internal_errors import guard
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics, spans
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, drops
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
#: Phases that suspend one of the four.
INTERRUPTING = frozenset({*_DURATIONS, spans.RL_DATA_WAIT.type, spans.RL_EVALUATE.type, spans.RL_CHECKPOINT.type})

#: The innermost phase of this thread or task. A token of it is only accepted where it was set: so a task that runs
#: beside a phase, and knows it from its copy of the context, does not suspend it.
_innermost: ContextVar[Phase | None] = ContextVar("otel_rl_phase", default=None)


class Phase:
    """One phase; ``start`` and ``end`` for hooks that come in pairs, or a context manager.

    ``name`` is the value of ``rl.phase``: the span type without its ``rl.`` prefix. ``limit`` is the largest number of
    spans of this kind in a step; further ones are emitted only if they fail, and go into the histogram.
    """

    __slots__ = (
        "_active",
        "_attributes",
        "_base",
        "_context",
        "_definition",
        "_interrupted",
        "_left",
        "_limit",
        "_mark",
        "_of_step",
        "_since",
        "_step",
        "_suspended",
        "_token",
        "name",
        "scope",
        "span",
    )

    def __init__(
        self,
        definition: SpanDefinition,
        scope: Scope,
        attributes: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> None:
        self._definition = definition
        self.scope = scope
        self._attributes = attributes
        self._limit = limit
        self._token: Token[Context] | None = None
        self._mark: Token[Phase | None] | None = None
        self._base: Context | None = None
        self._context: Context | None = None
        self._step: steps.Step | None = None
        #: True where it is a part of the step's time, and not of a rollout's.
        self._of_step = False
        #: Since when it has been active; None before its start, after its end, and while it is suspended.
        self._since: Moment | None = None
        #: Seconds of the stretches that have ended.
        self._active = 0.0
        self._suspended = False
        self._left = False
        #: Phases that this one has suspended, innermost first.
        self._interrupted: list[Phase] = []
        self.name = definition.type.removeprefix("rl.")
        self.span: Span = INVALID_SPAN

    def start(self, at: Moment | None = None) -> Self:
        """Open the span below the current one, in a thread without one below the open step; ``at`` says since when."""
        with guard("phases.start"):
            if not enabled():
                return self
            now = at or deferral.now()
            if self.interrupts:
                self._interrupt(now)
            self._step, self._base, self._of_step = _place()
            self._begin_stretch(now)
        return self

    def end(self, error: BaseException | str | None = None, at: Moment | None = None) -> None:
        """Close the span and record the duration in seconds; a second call does nothing.

        ``error`` (an exception, or an ``error.type`` as text) marks the phase as failed; ``at`` says when it ended,
        unless now.
        """
        if self._since is None and not self._suspended:
            return
        with guard("phases.end"):
            now = at or deferral.now()
            self.leave()
            self._end_stretch(now, error)
            self._suspended = False
            self._record_duration()
            self._resume_interrupted(now)

    def leave(self) -> None:
        """Restore what was current before; :meth:`end` does it too."""
        self._left = True
        mark, self._mark = self._mark, None
        if mark is not None:
            _reset(mark)
        token, self._token = self._token, None
        if token is not None:
            detach(token)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)

    # -- stretches -------------------------------------------------------------------------------------------------

    def _begin_stretch(self, now: Moment) -> None:
        self._since = now
        self._mark = _innermost.set(self)
        step = self._step
        if step is not None and step.thinned:
            drops.count(Signal.TRACES, steps.THINNED)
        elif self._limit is None or step is None or step.take_span(self._definition.type, self._limit):
            self.span = self._start_span(now.wall)
            self._context = trace_api.set_span_in_context(self.span, self._base)
            # A token from before a suspension: something of the program's own is current, and stays so.
            if self._token is None:
                self._token = attach(self._context)
            return
        self._context = self._base

    def _start_span(self, start_time: int) -> Span:
        step = self._step
        values = {names.RL_PHASE: self.name, names.RL_LOOP_ITERATION: step.iteration if step else None}
        if self._attributes:
            values.update(self._attributes)
        return self.scope.start_span(self._definition, attributes=values, context=self._base, start_time=start_time)

    def _end_stretch(self, now: Moment, error: BaseException | str | None = None, *, suspended: bool = False) -> None:
        since, self._since = self._since, None
        if since is None:
            return
        span, self.span = self.span, INVALID_SPAN
        if span is INVALID_SPAN and error is not None:
            span = self._start_span(since.wall)
        before = self._active
        self._active += now.counter - since.counter
        if span is INVALID_SPAN:
            return
        if suspended:
            span.set_attribute(names.RL_SUSPENDED, True)
        elif before:
            span.set_attribute(names.RL_ACTIVE_DURATION, self._active)
        self.scope.end_span(span, error, now.wall)

    def _record_duration(self) -> None:
        metric = _DURATIONS.get(self._definition.type)
        if metric is None:
            self.scope.record(metrics.RL_PHASE_DURATION, self._active, {names.RL_PHASE: self.name}, self._context)
        elif self._of_step and self._step is not None and self._step.is_open:
            self._step.add(metric, self.scope, self._active)
        else:
            self.scope.record(metric, self._active, context=self._context)

    # -- suspension ------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """True between its start and its end, except while it is suspended."""
        return self._since is not None

    @property
    def interrupts(self) -> bool:
        """True for a phase that suspends one of the four."""
        return self._definition.type in INTERRUPTING

    @property
    def can_be_suspended(self) -> bool:
        """True for the four, and no others."""
        return self._definition.type in _DURATIONS

    @property
    def outer(self) -> Phase | None:
        """The phase that this one has begun in, in the same thread or task or in the one it was started from."""
        before = self._mark.old_value if self._mark is not None else None
        return before if isinstance(before, Phase) else None

    @property
    def is_around(self) -> bool:
        """True when the current context is in the same trace."""
        context = get_current()
        if context is self._context:
            return True
        here = trace_api.get_current_span(context).get_span_context().trace_id
        return here == trace_api.get_current_span(self._context).get_span_context().trace_id

    def suspend(self, now: Moment) -> bool:
        """End this stretch; False where the phase runs in another thread or task, beside the caller."""
        if self._mark is None or not _reset(self._mark):
            return False
        self._mark = None
        self._suspended = True
        token = self._token
        # Where the program has made something of its own current meanwhile, that stays current.
        if token is not None and get_current() is self._context and detach(token):
            self._token = None
        self._end_stretch(now, suspended=True)
        return True

    def resume(self, now: Moment, around: Phase | None) -> bool:
        """Begin another stretch, below the new one of the phase ``around`` it; False when the phase has ended."""
        if not self._suspended or self._left:
            return False
        self._suspended = False
        if around is not None and around.span is not INVALID_SPAN:
            self._base = trace_api.set_span_in_context(around.span, self._base)
        self._begin_stretch(now)
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
        for one in chain:
            if not one.suspend(now):
                return
            self._interrupted.append(one)

    def _resume_interrupted(self, now: Moment) -> None:
        around: Phase | None = None
        while self._interrupted:
            phase = self._interrupted.pop()
            if phase.resume(now, around):
                around = phase


def _reset(mark: Token[Phase | None]) -> bool:
    """False where the token belongs to another thread or task."""
    try:
        _innermost.reset(mark)
    except (ValueError, RuntimeError):
        return False
    return True


def _place() -> tuple[steps.Step | None, Context, bool]:
    """The open step, the context in which a phase of it begins, and whether that is the step's own trace.

    A rollout is a trace of its own: its phases are no part of the step's time.
    """
    context = get_current()
    trace_id = trace_api.get_current_span(context).get_span_context().trace_id
    loop = context.get(steps.LOOP)
    step = loop.step if isinstance(loop, steps.Loop) else None
    if step is not None:
        if step.trace_id == trace_id:
            return step, context, True
        # Begun in another thread or task since: this context still has an earlier step of the loop.
        stale = baggage.get_baggage(names.RL_LOOP_ITERATION, context) != str(step.iteration)
        if stale and baggage.get_baggage(names.RL_ROLLOUT_ID, context) is None:
            return step, step.context, True
        return step, context, False
    step = steps.current()
    if step is not None and not trace_id:
        return step, step.context, True
    return step, context, False
