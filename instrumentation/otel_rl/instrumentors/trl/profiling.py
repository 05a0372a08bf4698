"""From the names of TRL's profiling contexts to phases.

A name is ``<class>.<what>``: ``GRPOTrainer.transformers.generate``, ``GRPOTrainer.compute_loss``; while rewards
are calculated, ``<what>`` is the name of a reward function.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

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
#: Name of a context -> its phase; None where it is none. As many as are remembered.
_phase_of: dict[str, SpanDefinition | None] = {}
_MAXIMUM_NAMES = 1024
#: Reward functions with a span of their own per step.
REWARD_SPANS_PER_STEP = 8

_CONTEXT = guard("trl.profiling")


def deciding(original: Callable[..., None]) -> Callable[..., None]:
    """Return a replacement of ``ProfilingContext.__init__`` that has the contexts followed that may become phases.

    Most do not: some thirty per step, of which four or five are phases. So it is decided when they are made, and only
    those get a class whose ``__enter__`` and ``__exit__`` open and end a phase.
    """

    @functools.wraps(original)
    def initialize(self: Any, name: str, *args: Any, **kwargs: Any) -> None:
        original(self, name, *args, **kwargs)
        try:
            if name not in _phase_of or _phase_of[name] is not None:
                _decide(self, name)
        except Exception as error:  # noqa: BLE001 - counted
            _CONTEXT.handle(error)

    return initialize


def _decide(context: Any, name: str) -> None:
    loop = trainer_loop.current()
    what = name.partition(".")[2]
    definition = PHASES.get(what)
    if definition is not None:
        _phase_of[name] = definition
        if loop.admits(definition.type):
            _follow(context)
    elif loop.is_open(spans.RL_REWARD):
        _follow(context)
    elif not loop.is_open(spans.RL_EVALUATE) and len(_phase_of) < _MAXIMUM_NAMES:
        # An evaluation has no reward phase that would tell reward functions from other contexts.
        _phase_of[name] = None


def _follow(context: Any) -> None:
    kind: Any = type(context)
    context.__class__ = _followed(kind)


@functools.lru_cache(maxsize=64)
def _followed(kind: Any) -> Any:
    """A class like ``kind`` whose instances are phases from their ``__enter__`` to their ``__exit__``."""

    def enter(self: Any) -> Any:
        result = kind.__enter__(self)
        with _CONTEXT:
            self._otel_rl_phase = _open(self.name)
        return result

    def leave(self: Any, error_type: Any, error: BaseException | None, traceback: Any) -> Any:
        phase = self.__dict__.pop("_otel_rl_phase", None)
        if phase is not None:
            phase.end(error)
        return kind.__exit__(self, error_type, error, traceback)

    same = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), {**same, "__enter__": enter, "__exit__": leave})


def _open(name: str) -> OpenPhase | Phase | None:
    loop = trainer_loop.current()
    what = name.partition(".")[2]
    definition = PHASES.get(what)
    if definition is not None:
        return loop.open(definition, scope)
    return _reward_function(loop, what) if scope.enabled and loop.is_open(spans.RL_REWARD) else None


def _reward_function(loop: trainer_loop.TrainerLoop, name: str) -> Phase | None:
    """A span per reward function and no duration: that of the phase around it counts."""
    step = loop.step
    if step is None or not step.take_span(attributes.RL_REWARD_NAME, REWARD_SPANS_PER_STEP):
        return None
    return Phase(spans.RL_REWARD, scope, {attributes.RL_REWARD_NAME: name}, has_duration=False).start()
