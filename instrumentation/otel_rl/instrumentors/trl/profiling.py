"""From the names of TRL's profiling contexts to phases.

A name is ``<class>.<what>``: ``GRPOTrainer.transformers.generate``, ``GRPOTrainer.compute_loss``; while rewards
are calculated, ``<what>`` is the name of a reward function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes, spans
from otel_rl.telemetry import Scope, guard
from otel_rl.training import trainer_loop

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from otel_rl.semconv.definitions import SpanDefinition

scope = Scope("trl")

PHASES: Mapping[str, SpanDefinition] = {
    "transformers.generate": spans.RL_GENERATE,
    "transformers.generate_batch": spans.RL_GENERATE,
    "transformers.generate_paged": spans.RL_GENERATE,
    "vLLM.generate": spans.RL_GENERATE,
    "_get_per_token_logps": spans.RL_LOG_PROBS,
    "_get_per_token_logps_and_entropies": spans.RL_LOG_PROBS,
    "_calculate_rewards": spans.RL_REWARD,
    "compute_loss": spans.RL_FORWARD,
    "sync_weights": spans.RL_SYNC,
}
#: Reward functions with a span of their own per step.
REWARD_SPANS_PER_STEP = 8

#: Where a running context keeps its phase: a context may be entered in another task than the one that made it.
_ATTRIBUTE = "_otel_rl_phase"


def enter(context: Any) -> None:
    """A ``ProfilingContext`` was entered."""
    if not scope.enabled:
        return
    with guard("trl.profiling"):
        phase = _phase(context.name)
        if phase is not None:
            phase.__enter__()
            setattr(context, _ATTRIBUTE, phase)


def leave(context: Any, error: BaseException | None) -> None:
    """The context is about to be left, with ``error`` if it failed."""
    phase = vars(context).pop(_ATTRIBUTE, None)
    if phase is not None:
        with guard("trl.profiling"):
            phase.__exit__(type(error) if error is not None else None, error, None)


def _phase(name: str) -> AbstractContextManager[Any] | None:
    what = name.partition(".")[2]
    loop = trainer_loop.current()
    definition = PHASES.get(what)
    if definition is not None:
        return loop.open(definition, scope)
    if loop.is_open(spans.RL_REWARD):
        return _reward_function(loop, what)
    return None


def _reward_function(loop: trainer_loop.TrainerLoop, name: str) -> AbstractContextManager[Any] | None:
    """A span per reward function and no duration: that of the phase around it counts."""
    step = loop.step
    if step is None or not step.take_span(attributes.RL_REWARD_NAME, REWARD_SPANS_PER_STEP):
        return None
    values = {
        attributes.RL_PHASE: attributes.RlPhaseValues.REWARD,
        attributes.RL_REWARD_NAME: name,
        attributes.RL_LOOP_ITERATION: step.iteration,
    }
    return scope.span(spans.RL_REWARD, attributes=values)
