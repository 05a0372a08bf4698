"""From the names of TRL's profiling contexts to phases.

A name is ``<class>.<what>``: ``GRPOTrainer.transformers.generate``, ``GRPOTrainer.compute_loss``; while rewards
are calculated, ``<what>`` is the name of a reward function.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl.core import own_cpu
from otel_rl.semconv import attributes, spans
from otel_rl.telemetry import Scope, guard
from otel_rl.training import trainer_loop
from otel_rl.training.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.training.phases import PhaseHandle

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
_REWARD, _FORWARD = spans.RL_REWARD.type, spans.RL_FORWARD.type

#: Names whose phase is remembered.
MAXIMUM_NAMES = 1024


class _Kinds(dict[str, "str | None"]):
    """Name of a context -> the type of its phase, None where it has none."""

    def __missing__(self, name: str) -> str | None:
        if len(self) >= MAXIMUM_NAMES:
            self.clear()
        definition = PHASES.get(_what(name))
        kind = self[name] = None if definition is None else definition.type
        return kind


#: Running contexts that have a phase, by their id: a context may end in another task than the one that entered it.
_open: dict[int, PhaseHandle] = {}
#: Most of them. A context that the program never leaves would stay for ever.
MAXIMUM_OPEN = 256

_guard = guard("trl.profiling")


def entering(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a replacement of ``ProfilingContext.__enter__`` that opens the phase of this name, if it has one.

    Of some thirty contexts per step four or five are phases. The others are told apart here, without a call: between
    two computations of the model each function that is called costs some microseconds.
    """
    here = own_cpu.place("trl.profiling.enter")
    sampled = here.sampling(_entered)
    known, running, outside = _Kinds(), trainer_loop.running_loops, trainer_loop.outside
    hidden = trainer_loop.HIDDEN_IN_FORWARD

    @functools.wraps(original)
    def enter(self: Any) -> Any:
        result = original(self)
        try:
            here.calls = calls = here.calls + 1
            if calls >= here.due:
                sampled(self)
            # The usual case of `trainer_loop.current`.
            elif len(running) != 1 or outside.step is not None:
                _entered(self)
            elif (kind := known[self.name]) is None:
                if _REWARD in running[0].open_phases:
                    _entered(self)
            elif kind not in (open_phases := running[0].open_phases) and not (
                kind in hidden and _FORWARD in open_phases
            ):
                _entered(self)
        except Exception as ours:  # noqa: BLE001 - counted
            _guard.handle(ours)
        return result

    return enter


def leaving(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of ``ProfilingContext.__exit__`` that ends the phase, with the error of the block."""
    end, open_by_id = own_cpu.timed("trl.profiling.leave", _end), _open

    @functools.wraps(original)
    def leave(self: Any, error_type: Any, error: BaseException | None, traceback: Any) -> Any:
        if open_by_id and (phase := open_by_id.pop(id(self), None)) is not None:
            end(phase, error)
        return original(self, error_type, error, traceback)

    return leave


def _entered(context: Any) -> None:
    definition = PHASES.get(_what(context.name))
    loop = trainer_loop.current()
    if definition is None:
        if _REWARD in loop.open_phases:
            _make_room(context)
            _keep(context, _reward_function(loop, _what(context.name)))
    elif definition.type not in loop.open_phases:
        _make_room(context)
        _keep(context, loop.open(definition, scope))


def _end(phase: PhaseHandle, error: BaseException | None) -> None:
    phase.end(error)


def _what(name: str) -> str:
    return name.partition(".")[2]


def _make_room(context: Any) -> None:
    """Give up a context that is gone and had the same id, and the oldest one where there are too many."""
    _give_up(_open.pop(id(context), None))
    if len(_open) >= MAXIMUM_OPEN:
        _give_up(_open.pop(next(iter(_open)), None))


def _give_up(phase: PhaseHandle | None) -> None:
    # Others end with their step.
    if isinstance(phase, Phase):
        phase.abandon()


def _keep(context: Any, phase: PhaseHandle | None) -> None:
    if phase is not None:
        _open[id(context)] = phase


def _reward_function(loop: trainer_loop.TrainerLoop, name: str) -> Phase | None:
    """Begin a span per reward function and no duration: that of the phase around it counts."""
    step = loop.step
    if step is None or not scope.enabled:
        return None
    if not step.take_span(attributes.RL_REWARD_NAME, REWARD_SPANS_PER_STEP):
        return None
    return Phase(spans.RL_REWARD, scope, {attributes.RL_REWARD_NAME: name}, has_duration=False).start()
