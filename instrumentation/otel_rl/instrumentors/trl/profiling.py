"""From the names of TRL's profiling contexts to phases.

A name is ``<class>.<what>``: ``GRPOTrainer.transformers.generate``, ``GRPOTrainer.compute_loss``; while rewards
are calculated, ``<what>`` is the name of a reward function.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl import own_cpu, reductions
from otel_rl.semconv import attributes, spans
from otel_rl.telemetry import Scope, guard
from otel_rl.training import trainer_loop
from otel_rl.training.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
#: Reward functions with a span of their own per step.
REWARD_SPANS_PER_STEP = 8

#: Where a running context keeps its phase: a context may be entered in another task than the one that made it.
_ATTRIBUTE = "_otel_rl_phase"

_guard = guard("trl.profiling")


def entering(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a replacement of ``ProfilingContext.__enter__`` that opens the phase of this name, if it has one.

    Of some thirty contexts per step four or five are phases. So the others must cost little.
    """
    here = own_cpu.place("trl.profiling.enter")
    sampled = here.sampling(_entered)

    @functools.wraps(original)
    def enter(self: Any) -> Any:
        result = original(self)
        try:
            here.calls = calls = here.calls + 1
            (_entered if calls < here.due else sampled)(self)
        except Exception as ours:  # noqa: BLE001 - counted
            _guard.handle(ours)
        return result

    return enter


def leaving(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of ``ProfilingContext.__exit__`` that ends the phase, with the error of the block."""
    end = own_cpu.timed("trl.profiling.leave", _end)

    @functools.wraps(original)
    def leave(self: Any, error_type: Any, error: BaseException | None, traceback: Any) -> Any:
        if _ATTRIBUTE in self.__dict__:
            end(self.__dict__.pop(_ATTRIBUTE), error)
        return original(self, error_type, error, traceback)

    return leave


def _entered(context: Any) -> None:
    definition = _phase_of(context.name)
    loop = trainer_loop.current()
    if definition is None:
        if loop.is_open(spans.RL_REWARD):
            _keep(context, _reward_function(loop, _what(context.name)))
    elif not loop.is_open(definition):
        _keep(context, loop.open(definition, scope))


def _end(phase: OpenPhase | Phase, error: BaseException | None) -> None:
    phase.end(error)


def _what(name: str) -> str:
    return name.partition(".")[2]


@functools.lru_cache(maxsize=1024)
def _phase_of(name: str) -> SpanDefinition | None:
    return PHASES.get(_what(name))


def _keep(context: Any, phase: OpenPhase | Phase | None) -> None:
    if phase is not None:
        setattr(context, _ATTRIBUTE, phase)


def _reward_function(loop: trainer_loop.TrainerLoop, name: str) -> Phase | None:
    """A span per reward function and no duration: that of the phase around it counts."""
    step = loop.step
    if step is None or not scope.enabled or reductions.PARTS.on:
        return None
    if not step.take_span(attributes.RL_REWARD_NAME, REWARD_SPANS_PER_STEP):
        return None
    return Phase(spans.RL_REWARD, scope, {attributes.RL_REWARD_NAME: name}, has_duration=False).start()
