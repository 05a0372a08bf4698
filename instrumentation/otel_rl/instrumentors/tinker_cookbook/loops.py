"""Steps, phases and values of the cookbook's loops."""

from __future__ import annotations

import sys
from asyncio import current_task
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.patch_functions import observing, together
from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope, guard
from otel_rl.training import systems, trainer_loop
from otel_rl.training.phases import Phase
from otel_rl.training.scalars import Source, sink
from otel_rl.training.timed_loop import part_ended
from otel_rl.training.trainer_loop import SPANS_PER_STEP

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Mapping
    from contextvars import Token

    from opentelemetry.context import Context

    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.training.phases import PhaseHandle

SYSTEM = "tinker_cookbook"
scope = Scope(SYSTEM)
#: Name of a block that is timed -> phase. Others lie within these or those of functions, or take next to no time.
PHASES: Mapping[str, SpanDefinition] = {
    **dict.fromkeys(("sampling", "sample"), spans.RL_SAMPLE),
    **dict.fromkeys(("train", "step"), spans.RL_TRAIN),
    **dict.fromkeys(("run_evals", "evals", "infrequent_evals"), spans.RL_EVALUATE),
    **dict.fromkeys(("kl_vs_base", "compute_kl_penalty", "compute_post_kl", "get_ref_logprobs"), spans.RL_LOG_PROBS),
    "get_batch": spans.RL_DATA_WAIT,
}
#: Block in which a group is scored, beside other groups that are still sampled: a span, and no phase of its own.
_SCORING = "compute_group_rewards"
#: Beginning of the timers of minibatches that are trained on as they come.
_MINIBATCH = "train/"
#: Functions of the loop of reinforcement learning that are timed.
FUNCTIONS: Mapping[str, SpanDefinition] = {
    "run_evaluations_parallel": spans.RL_EVALUATE,
    "save_checkpoint_and_get_sampling_client": spans.RL_SYNC,
    "train_step": spans.RL_TRAIN,
}
#: Task of asynchronous training that evaluates beside the loop, in iterations of its own.
_EVALUATES = "evaluation_loop"


class CookbookLoop(trainer_loop.TrainerLoop):
    """The steps of one call of ``main``, or of a loop of the program's own that uses ``trace_iteration``."""

    #: Rows of rollouts have them.
    logs_rewards = False

    def __init__(self, *, is_supervised: bool = False) -> None:
        super().__init__()
        #: The task that runs the loop; others run beside it.
        self.task = _task()
        #: Steps of supervised learning that have been submitted and not logged, oldest first.
        self.submitted: list[int] | None = [] if is_supervised else None
        #: Of the step that began last: its values are logged after its end.
        self.context_of_last: Context | None = None

    def opens(self, number: int) -> None:
        """Open the step with the cookbook's number."""
        self.task = _task()
        self.begin_step(number, scope)
        self.context_of_last = self.step.context if self.step is not None else None

    def ends(self, _: object = None, error: BaseException | None = None) -> None:
        """End the step that is open."""
        if error is None:
            self.count_step(scope, 0)
        self.finish_step(error)


# -- loops and steps ---------------------------------------------------------------------------------------------------


def _task() -> Task[Any] | None:
    with suppress(RuntimeError):
        return current_task()
    return None


def _loop() -> CookbookLoop | None:
    """Return the loop of the caller, also in tasks beside it."""
    loop = trainer_loop.current()
    return loop if isinstance(loop, CookbookLoop) else None


def _loop_begins(config: Any = None, *_: Any, is_supervised: bool = False, **__: Any) -> CookbookLoop:
    version = getattr(sys.modules.get(SYSTEM), "__version__", None)
    systems.configured(type(config), SYSTEM, version, RlRoleValues.TRAINER)
    loop = CookbookLoop(is_supervised=is_supervised)
    loop.enter()
    return loop


def _iteration_begins(step: int) -> CookbookLoop | None:
    """Begin a step; an iteration beside an open step is none."""
    task = _task()
    if task is not None and task.get_name() == _EVALUATES:
        return None
    loop = _loop() or _loop_begins()
    if loop.step is not None:
        return None
    loop.opens(step)
    return loop


def _submitted(values: Mapping[str, Any]) -> None:
    """Take the step of a batch of supervised learning; it begins with its batch, or when the one before is logged."""
    loop, number = _loop(), values.get("step")
    if loop is None or loop.submitted is None or not isinstance(number, int) or number <= loop.last:
        return
    if number not in loop.submitted:
        loop.submitted.append(number)
    if loop.step is None:
        loop.opens(number)


# -- phases ------------------------------------------------------------------------------------------------------------


def _block_begins(name: str) -> PhaseHandle | None:
    if name == _SCORING:
        return Phase(spans.RL_REWARD, scope, limit=SPANS_PER_STEP, has_duration=False, is_exclusive=False).start()
    definition = spans.RL_TRAIN if name.startswith(_MINIBATCH) else PHASES.get(name)
    return _phase_begins(definition) if definition is not None else None


def _phase_begins(definition: SpanDefinition, *_: Any, **__: Any) -> PhaseHandle | None:
    """Begin a phase of the loop; tasks beside it have none."""
    loop = _loop()
    return loop.open(definition, scope) if loop is not None and loop.task is _task() else None


# -- values ------------------------------------------------------------------------------------------------------------


def _log_begins(
    _: Any, metrics: Mapping[str, Any], step: int | None = None
) -> tuple[Token[object], CookbookLoop | None, int | None]:
    token, loop = sink.begin_call(Source.TRAINER), _loop()
    with guard("tinker_cookbook.log"):
        # After the end of the step, and before the next one.
        context = loop.context_of_last if loop is not None and step == loop.last else None
        sink.log(scope, Source.TRAINER, step, metrics, context=context)
    return token, loop, step


def _log_ends(state: tuple[Token[object], CookbookLoop | None, int | None], *_: Any) -> None:
    """End the call, and with it the step of supervised learning that it is of."""
    token, loop, number = state
    sink.end_call(token)
    if loop is None or loop.submitted is None or loop.step is None or loop.step.iteration != number:
        return
    loop.ends()
    loop.submitted = [later for later in loop.submitted if later > number]
    if loop.submitted:
        loop.opens(loop.submitted[0])


# -- what is patched ---------------------------------------------------------------------------------------------------

patch_trace = together(
    lambda _, patches: patches.on_restore(trainer_loop.close_steps),
    observing("trace_iteration", begin=_iteration_begins, end=CookbookLoop.ends),
    # The timers of blocks; those of functions are patched as functions.
    observing("scope_span", "scope_span_sync", begin=_block_begins, end=part_ended),
    observing("update_scope_context", before=_submitted),
)
patch_rl_train = together(
    observing("main", begin=_loop_begins, end=CookbookLoop.train_ended),
    *(
        observing(name, begin=partial(_phase_begins, definition), end=part_ended)
        for name, definition in FUNCTIONS.items()
    ),
)
patch_supervised_train = observing(
    "main", begin=partial(_loop_begins, is_supervised=True), end=CookbookLoop.train_ended
)
#: The loop waits for these.
patch_checkpoints = observing(
    "save_checkpoint", "save_checkpoint_async", begin=partial(_phase_begins, spans.RL_CHECKPOINT), end=part_ended
)
#: It hands values to all other loggers: those are part of its call.
patch_logger = observing("MultiplexLogger.log_metrics", begin=_log_begins, end=_log_ends)
