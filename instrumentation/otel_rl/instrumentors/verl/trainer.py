"""The trainer: its steps and their parts by its timer, its settings, and what it logs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope
from otel_rl.training import systems, timed_loop
from otel_rl.training.configuration import record_configuration
from otel_rl.training.timed_loop import TimedLoop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.training.phases import PhaseHandle

SYSTEM = "verl"
scope = Scope("verl")
#: Names of the timer, of all trainers of 0.8 and 0.9; others are no phase. Validation and logging follow the step.
_PHASES = {
    "gen": spans.RL_SAMPLE,
    "generate_async": spans.RL_SAMPLE,
    "switch_wait": spans.RL_SAMPLE,
    "wait_for_enough_samples": spans.RL_SAMPLE,
    "reward": spans.RL_REWARD,
    "old_log_prob": spans.RL_LOG_PROBS,
    "ref": spans.RL_LOG_PROBS,
    "update_actor": spans.RL_TRAIN,
    "update_critic": spans.RL_TRAIN,
    "update_weights": spans.RL_SYNC,
    "sync_rollout_weights": spans.RL_SYNC,
    "switch_to_rollout": spans.RL_SYNC,
    "switch_to_trainer": spans.RL_SYNC,
    "save_checkpoint": spans.RL_CHECKPOINT,
    "testing": spans.RL_EVALUATE,
}


def _model_of(config: Any) -> Any:
    return getattr(getattr(getattr(config, "actor_rollout_ref", None), "model", None), "path", None)


def fit_begins(trainer: Any, *_: Any, **__: Any) -> TimedLoop | None:
    """Begin the loop of a trainer."""
    if not scope.enabled:
        return None
    version = getattr(sys.modules.get("verl"), "__version__", None)
    systems.configured(type(trainer), SYSTEM, version, RlRoleValues.DRIVER)
    timed_loop.name_algorithm(getattr(getattr(trainer.config, "algorithm", None), "adv_estimator", None))
    loop = TimedLoop(scope, _PHASES, lambda: int(trainer.global_steps), _model_of(trainer.config))
    loop.enter()
    return loop


def timer_begins(name: str, *_: Any, **__: Any) -> TimedLoop | PhaseHandle | None:
    """Begin the step, or a part of it; other processes time other things."""
    loop = timed_loop.running()
    return None if loop is None else loop.part_begins(name)


def configured(*_: Any, config: Mapping[str, Any] | None = None, **__: Any) -> None:
    """Record the settings that the trackers are given."""
    if config:
        record_configuration(SYSTEM, config)
