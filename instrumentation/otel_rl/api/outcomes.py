"""What a program says of a rollout, also after its end: in its row, or as a change of it once that is recorded."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.semconv.attributes import RlAdvantageEstimatorValues
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops
from otel_rl.telemetry.attribute_values import number, text, truth
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH
from otel_rl.training import trajectory_changes, trajectory_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

_ESTIMATORS = frozenset(value for name, value in vars(RlAdvantageEstimatorValues).items() if name.isupper())


def _discard(reason: object) -> dict[str, Any]:
    return {"discard_reason": text(str(reason), MAXIMUM_LENGTH)}


def success_of(success: object) -> dict[str, Any]:
    """Return whether the task is done. A value that only a device or code of the program could tell is dropped."""
    is_success = truth(success)
    if is_success is None:
        drops.count(Signal.LOGS, "unsupported_type")
        return {}
    return {"success": is_success}


def _train(advantage: Any, estimator: object) -> dict[str, Any]:
    value = None if advantage is None else number(advantage)
    if value is None or not abs(value) <= sys.float_info.max:  # false for NaN, too
        return {"trained": True}
    known = estimator if isinstance(estimator, str) and estimator in _ESTIMATORS else ""
    return {"trained": True, "advantage": value, "estimator": known}


_JUDGEMENTS: dict[str, Callable[..., dict[str, Any]]] = {"discard": _discard, "succeed": success_of, "train": _train}


def judge(trajectory: OpenTrajectory, judgement: str, given: Mapping[str, Any]) -> None:
    """Take what the program says."""
    with guard(f"producer.{judgement}"):
        said = _JUDGEMENTS[judgement](**given)
        if said and trajectory_shares.tell(trajectory, partial(put, said=said)):
            trajectory_changes.changed()


def put(trajectory: OpenTrajectory, said: Mapping[str, Any]) -> None:
    """Set what was said."""
    for name, value in said.items():
        setattr(trajectory, name, value)
