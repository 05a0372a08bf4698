"""What a program says of a rollout, also after its end: until its record is made, with that of the step."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.semconv.attributes import RlAdvantageEstimatorValues
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops
from otel_rl.telemetry.attribute_values import number, text, truth
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

#: Why something that the program says is lost.
LATE = "trajectory_recorded"
_ESTIMATORS = frozenset(value for name, value in vars(RlAdvantageEstimatorValues).items() if name.isupper())


def _discard(trajectory: OpenTrajectory, reason: object) -> None:
    trajectory.discard_reason = text(str(reason), MAXIMUM_LENGTH)


def succeed(trajectory: OpenTrajectory, success: object) -> None:
    """Record whether the task is done. A value that only a device or code of the program could tell is dropped."""
    is_success = truth(success)
    if is_success is None:
        drops.count(Signal.LOGS, "unsupported_type")
        return
    trajectory.success = is_success


def _train(trajectory: OpenTrajectory, advantage: Any, estimator: object) -> None:
    trajectory.trained = True
    value = None if advantage is None else number(advantage)
    if value is not None and abs(value) <= sys.float_info.max:  # false for NaN, too
        trajectory.advantage = value
        trajectory.estimator = estimator if isinstance(estimator, str) and estimator in _ESTIMATORS else ""


_JUDGEMENTS: dict[str, Callable[..., None]] = {"discard": _discard, "succeed": succeed, "train": _train}


def judge(trajectory: OpenTrajectory, judgement: str, given: Mapping[str, Any]) -> None:
    """Take what the program says."""
    with guard(f"producer.{judgement}"):
        if trajectory.is_recorded:
            drops.count(Signal.LOGS, LATE)
            return
        _JUDGEMENTS[judgement](trajectory, **given)
