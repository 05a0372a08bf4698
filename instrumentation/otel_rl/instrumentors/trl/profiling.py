"""From the names of TRL's profiling contexts to phases.

A name is ``<class>.<what>``: ``GRPOTrainer.transformers.generate``, ``GRPOTrainer.compute_loss``; while rewards
are calculated, ``<what>`` is the name of a reward function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes, spans
from otel_rl.telemetry import Scope
from otel_rl.training import trainer_loop
from otel_rl.training.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.training.trainer_loop import OpenPhase

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
#: Names of contexts that were no phases, as many as are remembered.
_no_phases: set[str] = set()
_MAXIMUM_NAMES = 1024
#: Reward functions with a span of their own per step.
REWARD_SPANS_PER_STEP = 8

#: Where a running context keeps its phase: a context may be entered in another task than the one that made it.
_ATTRIBUTE = "_otel_rl_phase"


def entered(_: Any, context: Any) -> None:
    """``ProfilingContext.__enter__`` has returned."""
    name = context.name
    loop = trainer_loop.current()
    phase: OpenPhase | Phase | None
    # First: most contexts are not phases, and this runs several times per micro-batch.
    if name in _no_phases and not loop.is_open(spans.RL_REWARD):
        return
    what = name.partition(".")[2]
    definition = PHASES.get(what)
    if definition is not None:
        phase = loop.open(definition, scope)
    elif loop.is_open(spans.RL_REWARD):
        phase = _reward_function(loop, what) if scope.enabled else None
    else:
        phase = None
        if len(_no_phases) < _MAXIMUM_NAMES:
            _no_phases.add(name)
    if phase is not None:
        setattr(context, _ATTRIBUTE, phase)


def left(context: Any, _: Any, error: BaseException | None, __: Any) -> None:
    """``ProfilingContext.__exit__`` is about to run, with ``error`` if the block failed."""
    phase = context.__dict__.pop(_ATTRIBUTE, None)
    if phase is not None:
        phase.end(error)


def _reward_function(loop: trainer_loop.TrainerLoop, name: str) -> Phase | None:
    """A span per reward function and no duration: that of the phase around it counts."""
    step = loop.step
    if step is None or not step.take_span(attributes.RL_REWARD_NAME, REWARD_SPANS_PER_STEP):
        return None
    return Phase(spans.RL_REWARD, scope, {attributes.RL_REWARD_NAME: name}, has_duration=False).start()
