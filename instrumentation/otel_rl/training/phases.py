"""Phases of a step: spans, and the durations that belong to them.

``rl.sample``, ``rl.reward``, ``rl.train`` and ``rl.sync`` are exclusive: at any moment a step is in one of them at most.
One that begins inside another, in the same thread or task, suspends it. The suspended phase has several spans then,
one for each stretch: all but the last carry ``rl.suspended``, the last ``rl.active_duration``. Parts inside
a suspended phase are suspended with it. Waiting for data, evaluation and checkpoints suspend too, and are not suspended.

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
            if self._definition.type in INTERRUPTING:
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

    def _interrupt(self, now: Moment) -> None:
        """Suspend the exclusive phase around the current position, and the parts of it that are open."""
        chain: list[Phase] = []
        phase = _innermost.get()
        while phase is not None:
            if phase._since is None or not _in_same_trace(phase):  # noqa: SLF001 - of this class
                return
            chain.append(phase)
            if phase._definition.type in INTERRUPTING:  # noqa: SLF001
                break
            phase = phase._outer()  # noqa: SLF001
        if phase is None or phase._definition.type not in _DURATIONS:  # noqa: SLF001
            return
        for one in chain:
            if not one._suspend(now):  # noqa: SLF001
                return
            self._interrupted.append(one)

    def _outer(self) -> Phase | None:
        before = self._mark.old_value if self._mark is not None else None
        return before if isinstance(before, Phase) else None

    def _suspend(self, now: Moment) -> bool:
        """False where it runs in another thread or task, beside the caller."""
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

    def _resume_interrupted(self, now: Moment) -> None:
        around: Phase | None = None
        while self._interrupted:
            phase = self._interrupted.pop()
            if phase._suspended and not phase._left:  # noqa: SLF001 - of this class
                phase._resume(now, around)
                around = phase

    def _resume(self, now: Moment, around: Phase | None) -> None:
        """Begin another stretch, as a part below the new stretch of the phase ``around`` it."""
        self._suspended = False
        if around is not None and around.span is not INVALID_SPAN:
            self._base = trace_api.set_span_in_context(around.span, self._base)
        self._begin_stretch(now)


def _reset(mark: Token[Phase | None]) -> bool:
    """False where the token belongs to another thread or task."""
    try:
        _innermost.reset(mark)
    except (ValueError, RuntimeError):
        return False
    return True


def _in_same_trace(phase: Phase) -> bool:
    context = get_current()
    if context is phase._context:  # noqa: SLF001 - of this module
        return True
    here = trace_api.get_current_span(context).get_span_context().trace_id
    return here == trace_api.get_current_span(phase._context).get_span_context().trace_id  # noqa: SLF001


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
