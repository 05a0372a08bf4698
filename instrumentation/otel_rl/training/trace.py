"""The step and the phases of the trainer that runs in this process."""

from __future__ import annotations

import functools
import time
from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import Scope, deferral, guard, lifecycle
from otel_rl.training import steps
from otel_rl.training.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from otel_rl.semconv.definitions import SpanDefinition

    Function = Callable[..., Any]

#: Spans per step of each kind in `_REPEATED`. With many micro-batches the later ones only go into the duration
#: histogram: a step trace is to be read, and 64 micro-batches would give it 128 spans that say the same.
SPANS_PER_STEP = 3
_REPEATED = frozenset({spans.RL_FORWARD.type, spans.RL_BACKWARD.type, spans.RL_GENERATE.type, spans.RL_LOG_PROBS.type})

#: Parts of training proper: the first one of a step opens ``rl.train`` around all of them.
_TRAINING = frozenset({spans.RL_FORWARD.type, spans.RL_BACKWARD.type, spans.RL_OPTIMIZER.type})
#: Phases that may lie outside of a step: evaluating or saving a model that is not being trained.
_OUTSIDE_STEPS = frozenset({spans.RL_EVALUATE.type, spans.RL_CHECKPOINT.type})
#: A phase is not a phase inside these: the loss computes log-probabilities by its forward pass, and an evaluation is
#: one phase, however many batches it samples and scores.
_HIDDEN_INSIDE = {spans.RL_LOG_PROBS.type: frozenset({spans.RL_FORWARD.type, spans.RL_EVALUATE.type})}
_HIDDEN = frozenset({spans.RL_EVALUATE.type})

NO_PHASE: AbstractContextManager[None] = nullcontext()


class _Duration:
    """Stands for a phase whose span would be one too many: only the histogram is fed, at the end of the step.

    Between the trainer's computations our code finds the processor's caches cold: all durations of a step together
    cost a fraction of each one on its own.
    """

    __slots__ = ("_durations", "_started")

    def __init__(self, durations: list[float]) -> None:
        self._durations = durations
        self._started = time.perf_counter()

    def end(self, error: BaseException | None = None) -> None:
        self._durations.append(time.perf_counter() - self._started)


class OpenPhase:
    """A phase that is running; ends once, by :meth:`end` or by leaving the ``with`` block."""

    def __init__(self, trace: TrainingTrace, kind: str, phase: Phase | _Duration) -> None:
        self._trace = trace
        self._kind = kind
        self._phase = phase

    def end(self, error: BaseException | None = None) -> None:
        """Close it, and whatever was left open inside it, with the exception that ended it."""
        with guard("training.phase"):
            self._trace.close_down_to(self._kind, error)

    def close(self, error: BaseException | None) -> None:
        """For the trace only."""
        self._phase.end(error)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)


class TrainingTrace:
    """Opens steps and phases in the order in which trainer hooks report them; one per process."""

    def __init__(self) -> None:
        self._open: dict[str, OpenPhase] = {}
        self._spans: Counter[str] = Counter()
        #: Of the open step, by kind: the scope that saw them, seconds.
        self._durations: dict[str, tuple[Scope, list[float]]] = {}

    # -- steps -------------------------------------------------------------------------------------------------

    def begin_step(self, iteration: int, scope: Scope) -> None:
        """Open step ``iteration`` unless it is open; several hooks report the same step."""
        step = steps.current()
        if not scope.enabled or (step is not None and step.iteration == iteration):
            return
        self.finish_step()
        self._spans.clear()
        steps.add_contributor(self._step_closing)
        steps.begin(iteration, scope)

    def finish_step(self, error: BaseException | None = None) -> None:
        """Close the step and the phases left open in it."""
        self.close_all(error)
        steps.finish(error)

    def _step_closing(self, _: steps.Step) -> None:
        # Someone else may end the step: phases that began in it must not outlive it.
        self.close_all()
        if self._durations:
            durations, self._durations = self._durations, {}
            deferral.post(Signal.METRICS, lambda: _record_durations(durations))

    # -- phases ------------------------------------------------------------------------------------------------

    def phase(self, definition: SpanDefinition, scope: Scope) -> AbstractContextManager[None]:
        """Run a ``with`` block as a phase; does nothing where such a phase is open already or hidden."""
        with guard("training.phase"):
            return self.open(definition, scope) or NO_PHASE
        return NO_PHASE

    def open(self, definition: SpanDefinition, scope: Scope) -> OpenPhase | None:
        """Start a phase that another hook ends, see :meth:`end`."""
        kind = definition.type
        if (
            not scope.enabled
            or kind in self._open
            or not self._open.keys().isdisjoint(_HIDDEN_INSIDE.get(kind, _HIDDEN))
        ):
            return None
        if steps.current() is None and kind not in _OUTSIDE_STEPS:
            return None
        if kind in _TRAINING:
            self.open(spans.RL_TRAIN, scope)
        elif kind == spans.RL_SAMPLE.type:
            # Several generations per optimizer step: sampling in between is not training.
            self.end(spans.RL_TRAIN)
        crowded = kind in _REPEATED and not self.take_span(kind, SPANS_PER_STEP)
        phase = _Duration(self._durations_of(kind, scope)) if crowded else Phase(definition, scope).start()
        self._open[kind] = OpenPhase(self, kind, phase)
        return self._open[kind]

    def _durations_of(self, kind: str, scope: Scope) -> list[float]:
        return self._durations.setdefault(kind, (scope, []))[1]

    def end(self, definition: SpanDefinition, error: BaseException | None = None) -> None:
        """End the phase of this kind if it is open."""
        self.close_down_to(definition.type, error)

    def is_open(self, definition: SpanDefinition) -> bool:
        """True while a phase of this kind is running."""
        return definition.type in self._open

    def take_span(self, kind: str, limit: int) -> bool:
        """True for the first ``limit`` spans of ``kind`` in this step."""
        self._spans[kind] += 1
        return self._spans[kind] <= limit

    def close_down_to(self, kind: str, error: BaseException | None) -> None:
        """End the phase ``kind`` and those opened after it, innermost first."""
        if kind not in self._open:
            return
        while self._open:
            innermost, phase = self._open.popitem()
            phase.close(error)
            if innermost == kind:
                return

    def close_all(self, error: BaseException | None = None) -> None:
        """End every open phase, innermost first."""
        while self._open:
            self._open.popitem()[1].close(error)

    def forget(self) -> None:
        """In a forked child: the phases are the parent's."""
        self._open.clear()
        self._spans.clear()
        self._durations.clear()


def _record_durations(durations: dict[str, tuple[Scope, list[float]]]) -> None:
    for kind, (scope, seconds) in durations.items():
        scope.record_all(metrics.RL_PHASE_DURATION, seconds, {attributes.RL_PHASE: kind.removeprefix("rl.")})


def in_phase(definition: SpanDefinition, scope: Scope) -> Callable[[Function], Function]:
    """Return a factory of wrappers that run the original as a phase of ``scope``."""

    def factory(original: Function) -> Function:
        @functools.wraps(original)
        def method(*args: Any, **kwargs: Any) -> Any:
            with trace.phase(definition, scope):
                return original(*args, **kwargs)

        return method

    return factory


trace = TrainingTrace()
lifecycle.after_fork_in_child(trace.forget)
