"""Rollouts of the cookbook: a trace and a row each, with what their group and their training add later."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import suppress
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any

from otel_rl.api import outcomes, scores
from otel_rl.api.rollouts import Rollout
from otel_rl.instrumentors.by_object import ByObject
from otel_rl.instrumentors.patch_functions import observing
from otel_rl.semconv.attributes import RlAdvantageEstimatorValues
from otel_rl.telemetry.attribute_values import number
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextvars import Token

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

#: Names of the rewards: what the environment gives step by step, and what the group gives at the end.
ENVIRONMENT, GROUP = "environment", "group"
#: Largest difference of an advantage from the reward less the mean of its group, relative to the largest reward.
ROUNDING = 1e-5
#: Trajectory of the cookbook -> ours.
_rollouts: ByObject[OpenTrajectory] = ByObject()
_group: ContextVar[str | None] = ContextVar("otel_rl_cookbook_group", default=None)
_numbers = count()


def _rollout_begins(*_: Any, **__: Any) -> Rollout:
    return Rollout(None, None, _group.get(), None, steps.where().iteration, None, False, None)


def _rollout_ended(rollout: Rollout, result: Any, error: BaseException | None) -> None:
    trajectory = rollout.trajectory
    if error is None:
        _rollouts.put(result, trajectory)
        if result.stop_reason is not None:
            trajectory.stop_reason = str(result.stop_reason)
        _take_rewards(trajectory, result.transitions)
    rollout.end(error, None)


def _take_rewards(trajectory: OpenTrajectory, transitions: Sequence[Any]) -> None:
    """Take what the environment said of each turn."""
    for turn, transition in enumerate(transitions, 1):
        scores.reward(ENVIRONMENT, transition.reward, None, None, turn, 1.0, None, None, trajectory)
        for name, value in transition.metrics.items():
            metric = number(value)
            if metric is not None:
                trajectory.add_metric(name, float(metric))


def _found(group: Any) -> Iterator[tuple[int, OpenTrajectory]]:
    """Yield the places in the group of the rollouts that this process has made, and ours of them."""
    for place, made in enumerate(group.trajectories_G):
        kept = _rollouts.get(made)
        if kept is not None:
            yield place, kept


def _group_begins(*_: Any, **__: Any) -> Token[str | None]:
    # Workers of a pool count their own.
    process = f"{os.getpid()}-" if multiprocessing.parent_process() is not None else ""
    return _group.set(f"{process}{next(_numbers)}")


def _group_ended(token: Token[str | None], group: Any, _: BaseException | None) -> None:
    with suppress(ValueError):
        _group.reset(token)
    if group is None or not any(group.final_rewards_G):
        return
    for place, trajectory in _found(group):
        scores.reward(GROUP, group.final_rewards_G[place], None, None, None, 1.0, None, None, trajectory)


def _trains(trajectory_groups_P: Sequence[Any], advantages_P: Sequence[Any], *_: Any, **__: Any) -> None:  # noqa: N803 - names of the library
    for group, advantages in zip(trajectory_groups_P, advantages_P, strict=False):
        rewards, given = group.get_total_rewards(), [float(advantage) for advantage in advantages]
        mean = sum(rewards) / len(rewards)
        near = ROUNDING * max(map(abs, (*rewards, 1.0)))
        is_centred = all(abs(reward - mean - one) <= near for reward, one in zip(rewards, given, strict=True))
        estimator = RlAdvantageEstimatorValues.DR_GRPO if is_centred else None
        for place, trajectory in _found(group):
            outcomes.judge(trajectory, "train", {"advantage": given[place], "estimator": estimator})


patch_rollout_runner = observing("run_rollout", begin=_rollout_begins, end=_rollout_ended)
patch_rollouts = observing("do_group_rollout", begin=_group_begins, end=_group_ended)
#: These rollouts are trained on.
patch_data_processing = observing("assemble_training_data", before=_trains)
