"""Rollouts of the generators: one call of an agent loop each, which may run beside the trainer's steps."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.api import scores
from otel_rl.api.rollouts import Rollout
from otel_rl.instrumentors.skyrl import trainer
from otel_rl.telemetry.attribute_values import number
from otel_rl.telemetry.scope import enabled
from otel_rl.training import caller_steps

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

#: What SkyRL calls an evaluation.
_EVALUATION = "eval"


class _OpenRollout(NamedTuple):
    rollout: Rollout
    environment: str
    evaluation: Token[bool] | None


def rollout_begins(
    generator: Any,
    _: Any,
    env_class: str,
    *__: Any,
    trajectory_id: Any = None,
    training_phase: str = "train",
    **___: Any,
) -> _OpenRollout | None:
    """Begin a rollout; it belongs to the step that the trainer works on, whichever step trains on it."""
    if not enabled():
        return None
    group = None if trajectory_id is None else str(trajectory_id.instance_id)
    name = None if group is None else f"{group}_{trajectory_id.repetition_id}"
    version = getattr(generator.inference_engine_client, "weight_version", None)
    # Before the rollout, which asks it at its end.
    evaluation = caller_steps.made_in_evaluation.set(True) if training_phase == _EVALUATION else None
    rollout = Rollout(name, None, group, version, trainer.current_step(), None, False, None)
    return _OpenRollout(rollout, env_class, evaluation)


def rollout_ended(opened: _OpenRollout, output: Any, error: BaseException | None) -> None:
    """End the rollout with what its environment gave."""
    if error is None:
        _take(output, opened.rollout.trajectory, opened.environment)
    opened.rollout.end(error, None)
    if opened.evaluation is not None:
        with suppress(ValueError):
            caller_steps.made_in_evaluation.reset(opened.evaluation)


def _take(output: Any, trajectory: OpenTrajectory, environment: str) -> None:
    # Trained turn by turn, each of them is an output.
    turns = getattr(output, "step_outputs", None)
    parts = [output] if turns is None else turns
    for turn, part in enumerate(parts, 1):
        _reward(environment, part.reward, None if turns is None else turn, trajectory)
    if parts:
        trajectory.stop_reason = str(parts[-1].stop_reason)
        _add_metrics(trajectory, "", parts[-1].env_metrics)
    _add_metrics(trajectory, "seconds/", getattr(output, "time_splits", None))


def _reward(environment: str, given: Any, turn: int | None, trajectory: OpenTrajectory) -> None:
    """Record a reward, which may be one per token."""
    reward = sum(given) if isinstance(given, list) else given
    scores.reward(environment, reward, None, None, turn, 1.0, None, None, trajectory)


def _add_metrics(trajectory: OpenTrajectory, prefix: str, values: Mapping[str, Any] | None) -> None:
    for name, value in (values or {}).items():
        metric = number(value)
        if metric is not None:
            trajectory.add_metric(f"{prefix}{name}", float(metric))
