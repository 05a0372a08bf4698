"""The steps and phases of a trainer that times its parts, by name, with one timer of its own.

Systems on Ray have such a timer in the process that drives the training: a part named ``step`` holds the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.process import process_identity
from otel_rl.semconv import attributes
from otel_rl.training import trainer_loop
from otel_rl.training.logged_values import step_number
from otel_rl.training.scalars import Source, sink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Token

    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.telemetry import Scope
    from otel_rl.training.phases import PhaseHandle

#: The part of all known systems that is the step.
STEP = "step"
#: Estimators of advantages that name the algorithm otherwise.
_ALGORITHMS = {"gae": "ppo"}


class TimedLoop(trainer_loop.TrainerLoop):
    """The steps of one training.

    Args:
        scope: Scope of its spans.
        phases: Parts by their names; others are no phase.
        number: Returns the number of the step that begins.
        model: Name of the model that is trained, or the path of its folder.
    """

    def __init__(
        self, scope: Scope, phases: Mapping[str, SpanDefinition], number: Callable[[], int], model: Any = None
    ) -> None:
        name = None if model is None else str(model).rstrip("/").rpartition("/")[2]
        super().__init__(attributes={attributes.RL_MODEL_NAME: name})
        self._scope = scope
        self._phases = phases
        self._number = number

    def part_begins(self, name: str) -> TimedLoop | PhaseHandle | None:
        """Begin the step, or a phase of it; what it returns is for :func:`part_ended`."""
        if name == STEP:
            self.begin_step(self._number(), self._scope)
            return self
        phase = self._phases.get(name)
        return None if phase is None else self.open(phase, self._scope)

    def step_ended(self, error: BaseException | None) -> None:
        """End the step; one that failed is not counted."""
        self.finish_step(error)
        if error is None:
            self.count_step(self._scope, 0)


def running() -> TimedLoop | None:
    """Return the loop that the caller runs in; None in other processes, and outside of a training."""
    loop = trainer_loop.current()
    return loop if isinstance(loop, TimedLoop) else None


def part_ended(opened: TimedLoop | PhaseHandle, _: Any, error: BaseException | None) -> None:
    """End what a part has begun; the end hook of a timer."""
    if isinstance(opened, TimedLoop):
        opened.step_ended(error)
    else:
        opened.end(error)


def name_algorithm(estimator: Any) -> None:
    """Name the algorithm by the estimator of its advantages, an enumeration or text, unless it is known."""
    if estimator is not None and process_identity.current().algorithm is None:
        name = str(getattr(estimator, "value", estimator))
        process_identity.update(algorithm=_ALGORITHMS.get(name, name))


def log_begins(
    scope: Scope, _: Any, data: Mapping[str, Any], step: Any = None, *__: Any, **___: Any
) -> Token[object] | None:
    """Record what the trainer logs, before trackers below get it; ``partial(log_begins, scope)`` is a begin hook."""
    if not scope.enabled:
        return None
    token = sink.begin_call(Source.TRAINER)
    sink.log(scope, Source.TRAINER, step_number(step), data)
    return token


def log_ended(token: Token[object], _: Any, __: BaseException | None) -> None:
    """Note that the trackers have got it; the end hook of a log call."""
    sink.end_call(token)
