"""The steps and phases of a trainer, in the order in which its hooks report them."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current

from otel_rl.core import own_cpu
from otel_rl.semconv import metrics, spans
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, guard, lifecycle
from otel_rl.telemetry.context import attach, detach
from otel_rl.training import steps
from otel_rl.training.parts import Part
from otel_rl.training.phases import INTERRUPTING, Phase, PhaseHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from contextvars import Token

    from opentelemetry.context import Context

    from otel_rl.flight_recorder.ring import Handle
    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.telemetry import Scope
    from otel_rl.telemetry.deferral import Moment

    Function = Callable[..., Any]

#: Spans per step of each part of a phase. With many micro-batches the later ones only go into the duration histogram:
#: a step trace is to be read, and 64 micro-batches would give it 128 spans that say the same.
SPANS_PER_STEP = 3
#: Spans per step of each phase that has parts; one that is suspended has several.
PHASE_SPANS_PER_STEP = 8

#: Parts of training proper: the first one opens ``rl.train`` around all that follow.
_TRAINING = frozenset({spans.RL_FORWARD.type, spans.RL_BACKWARD.type, spans.RL_OPTIMIZER.type})
#: Parts in which nothing else begins that needs them as its parent.
_LEAVES = _TRAINING | {spans.RL_LOG_PROBS.type}
#: Phases that may lie outside of a step: evaluating or saving a model that is not being trained.
_OUTSIDE_STEPS = frozenset({spans.RL_EVALUATE.type, spans.RL_CHECKPOINT.type})
#: No phases inside a forward pass: the loss computes log-probabilities by it. Nothing is a phase inside an evaluation,
#: which is one phase, however many batches it samples and scores.
_FORWARD = spans.RL_FORWARD.type
HIDDEN_IN_FORWARD = frozenset({spans.RL_LOG_PROBS.type})

_PHASE = guard("training.phase")
NO_PHASE: AbstractContextManager[object] = nullcontext()


class TrainerLoop(steps.Loop):
    """The steps of one call of ``train()``, and their phases."""

    logs_rewards = True
    source = LoopSource.KNOWN

    def __init__(self, name: str | None = None, attributes: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, attributes)
        #: By the type of their span, the innermost at the end.
        self.open_phases: dict[str, PhaseHandle] = {}
        #: By the type of their span, of parts that have ended, for the flight recorder.
        self._handles: dict[str, Handle] = {}
        self._token: Token[Context] | None = None
        #: The last step that a log call with a loss has covered, and the tokens counted so far.
        self._last_logged = 0
        self._tokens = 0
        #: Since when it prepares its first step, in ns since the epoch; None from that on.
        self.prepares_since: int | None = None

    # -- the call of train() ---------------------------------------------------------------------------------------

    def enter(self) -> TrainerLoop:
        """Make this the loop of everything that runs in this thread or task from here on."""
        steps.stop_guessing()
        self._token = attach(self.run_context())
        running_loops.append(self)
        return self

    def leave(self, error: BaseException | None = None) -> None:
        """End the open step and restore what was current before :meth:`enter`."""
        self.finish_step(error)
        self.retire()
        if self in running_loops:
            running_loops.remove(self)
        token, self._token = self._token, None
        detach(token)

    def train_ended(self, _: object, error: BaseException | None) -> None:
        """End the loop, and the step that an exception has left open: the hook for the end of a ``train()``."""
        self.leave(error)

    # -- steps -----------------------------------------------------------------------------------------------------

    def begin_step(self, iteration: int, scope: Scope, waiting_since: Moment | None = None) -> None:
        """Open step ``iteration`` unless it is open; several hooks report the same step.

        ``waiting_since`` says since when the trainer has waited for the batch that begins the step. The step before
        ends then, and the wait lies between the two. Within a step it is a phase.
        """
        if not scope.enabled:
            return
        if self.step is not None and self.step.iteration == iteration:
            if waiting_since is not None:
                self._record_wait_inside(scope, waiting_since)
            return
        self.close_all()
        steps.contributors.add(_step_closing)
        self.begin(iteration, scope, deferral.now(), waiting_since)

    def _record_wait_inside(self, scope: Scope, since: Moment) -> None:
        """Record a wait for more batches of the same step, e.g. after an epoch that ended in an accumulation."""
        phase = Phase(spans.RL_DATA_WAIT, scope, limit=SPANS_PER_STEP)
        phase.start(since)
        phase.end()

    def finish_step(self, error: BaseException | None = None) -> None:
        """Close the step and the phases left open in it."""
        self.close_all(error)
        self.finish(error)

    # -- phases ----------------------------------------------------------------------------------------------------

    def phase(self, definition: SpanDefinition, scope: Scope) -> AbstractContextManager[object]:
        """Run a ``with`` block as a phase; does nothing where such a phase is open already or hidden."""
        with _PHASE:
            return self.open(definition, scope) or NO_PHASE
        return NO_PHASE

    def open(self, definition: SpanDefinition, scope: Scope) -> PhaseHandle | None:
        """Start a phase that another hook ends, see :meth:`end`; None where there is nothing to record."""
        kind = definition.type
        phases = self.open_phases
        if kind in phases or spans.RL_EVALUATE.type in phases or (kind in HIDDEN_IN_FORWARD and _FORWARD in phases):
            return None
        step = self.step
        if step is None and (kind not in _OUTSIDE_STEPS or not scope.enabled):
            return None
        if kind in INTERRUPTING:
            if next(reversed(phases), None) == spans.RL_TRAIN.type:
                # What lies between two updates is not training, which its next part opens again. Inside of a part,
                # training is only suspended.
                self.end(spans.RL_TRAIN)
            opened: PhaseHandle = Phase(definition, scope, limit=PHASE_SPANS_PER_STEP, loop=self).start()
        else:
            if kind in _TRAINING and spans.RL_TRAIN.type not in phases:
                self._open_training(scope)
            has_span = step is None or step.take_span(kind, SPANS_PER_STEP)
            if step is not None and (kind in _LEAVES or not has_span):
                opened = Part(definition, scope, step, has_span=has_span, handles=self._handles, loop=self)
            else:
                opened = Phase(definition, scope, loop=self).start()
        phases[kind] = opened
        return opened

    def _open_training(self, scope: Scope) -> None:
        phase = Phase(spans.RL_TRAIN, scope, limit=PHASE_SPANS_PER_STEP, loop=self).start()
        self.open_phases[spans.RL_TRAIN.type] = phase

    def end(self, definition: SpanDefinition, error: BaseException | None = None) -> None:
        """End the phase of this kind if it is open."""
        self.close_down_to(definition.type, error)

    def is_open(self, definition: SpanDefinition) -> bool:
        """Return whether a phase of this kind is running."""
        return definition.type in self.open_phases

    def close_down_to(self, kind: str, error: BaseException | None, phase: PhaseHandle | None = None) -> None:
        """End the phase ``kind``, or this very ``phase``, and those opened after it, innermost first."""
        opened = self.open_phases.get(kind)
        if opened is None or (phase is not None and phase is not opened):
            return
        while self.open_phases:
            innermost, inner_phase = self.open_phases.popitem()
            inner_phase.close(error)
            if innermost == kind:
                return

    def close_all(self, error: BaseException | None = None) -> None:
        """End every open phase, innermost first."""
        while self.open_phases:
            self.open_phases.popitem()[1].close(error)

    def forget(self) -> None:
        """Drop the phases in a forked child: they are the parent's."""
        super().forget()
        self.open_phases.clear()
        self._handles.clear()

    # -- progress --------------------------------------------------------------------------------------------------

    def counts_from(self, iteration: int, tokens: int) -> None:
        """Count steps and tokens from here on: a resumed run did not train the earlier ones in this process."""
        self._last_logged, self._tokens = iteration, tokens

    def count_step(self, scope: Scope, tokens: int) -> None:
        """Count one optimizer step, in the rank that speaks for all; ``tokens`` have been trained on so far."""
        trained, self._tokens = tokens - self._tokens, tokens
        step = self.step
        context = step.context if step is not None else get_current()
        deferral.post(Signal.METRICS, lambda: _count_step(scope, trained, context))

    def covered_since(self, iteration: int) -> int:
        """Return the first step that a log call with a loss at ``iteration`` covers, from the one before on."""
        first = min(self._last_logged + 1, iteration)
        self._last_logged = iteration
        return first


#: Loops inside a call of ``train()``, the one begun last at the end.
running_loops: list[TrainerLoop] = []
#: Holds the phases that a trainer has outside of ``train()``.
outside = TrainerLoop()


def current() -> TrainerLoop:
    """Return the loop of the trainer that the caller runs in.

    In a thread without context that is the trainer begun last; outside of ``train()``, one that has no steps.
    """
    if len(running_loops) == 1 and outside.step is None:
        # The usual case: asked several times per micro-batch, and no other loop could be the answer.
        return running_loops[0]
    here = steps.where()
    if here.step is not None:
        loop: steps.Loop | None = here.step.loop
    else:
        loop = here.loop_of_context
        if loop is not None and not loop.running:
            loop = None
    if isinstance(loop, TrainerLoop):
        return loop
    return running_loops[-1] if running_loops else outside


def _count_step(scope: Scope, tokens: int, context: Context) -> None:
    scope.record(metrics.RL_TRAIN_STEPS, 1, context=context)
    if tokens > 0:
        scope.record(metrics.RL_TRAIN_TOKENS, tokens, context=context)


def in_phase(definition: SpanDefinition, scope: Scope) -> Callable[[Function], Function]:
    """Return a factory of wrappers that run the original as a phase of ``scope``."""
    opening, ending = (own_cpu.place(f"{definition.type}.{moment}") for moment in ("open", "end"))
    open_sampled, end_sampled = opening.sampling(_open_current), ending.sampling(PhaseHandle.end)

    def factory(original: Function) -> Function:
        @functools.wraps(original)
        def method(*args: Any, **kwargs: Any) -> Any:
            opened: PhaseHandle | None = None
            try:
                opening.calls = calls = opening.calls + 1
                opened = (_open_current if calls < opening.due else open_sampled)(definition, scope)
            except Exception as ours:  # noqa: BLE001 - counted
                _PHASE.handle(ours)
            if opened is None:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                PhaseHandle.end(opened, error)
                raise
            ending.calls = calls = ending.calls + 1
            (PhaseHandle.end if calls < ending.due else end_sampled)(opened)
            return result

        return method

    return factory


def _open_current(definition: SpanDefinition, scope: Scope) -> PhaseHandle | None:
    return current().open(definition, scope)


def close_steps() -> None:
    """End the steps of all trainers: nobody follows them any more."""
    for loop in (*running_loops, outside):
        with guard("training.close_steps"):
            loop.finish_step()


def _step_closing(step: steps.Step) -> None:
    if isinstance(step.loop, TrainerLoop):
        # Phases that began in it must not outlive it.
        step.loop.close_all()


def _forget() -> None:
    for loop in (*running_loops, outside):
        loop.forget()
    running_loops.clear()


lifecycle.after_fork_in_child(_forget)
