"""Advantages of the samples of a group from their rewards, as the trainers compute them.

``_generate_and_score_completions`` of TRL 0.27 to 1.16 has these formulas, in 32 bit (``GRPOTrainer`` with
``scale_rewards`` of ``group``, ``batch`` and ``none``; ``RLOOTrainer`` without penalty, clipping and normalization).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from otel_rl.semconv.attributes import RlAdvantageEstimatorValues as Estimator

if TYPE_CHECKING:
    from collections.abc import Sequence

ESTIMATORS = (Estimator.GRPO, Estimator.DR_GRPO, Estimator.RLOO, Estimator.GRPO_BATCH)
#: Those that need all rewards of the batch.
OF_A_BATCH = frozenset({Estimator.GRPO_BATCH})
#: What TRL adds to a standard deviation before it divides by it.
_EPSILON = 1e-4
#: Differences up to this are rounding: share of the advantage, and of the largest reward in 32 bit before a division.
_SHARE, _ROUNDING = 1e-3, 1e-6


def compute(estimator: str, rewards: Sequence[float], batch: Sequence[float] | None = None) -> list[float]:
    """Return the advantage of each sample of a group; ``batch`` has the rewards of all groups, where needed.

    A single sample has no advantage: in the trainers it is not a number, and zero from there on.
    """
    number = len(rewards)
    if number == 1:
        return [0.0]
    total = math.fsum(rewards)
    if estimator == Estimator.RLOO:
        return [reward - (total - reward) / (number - 1) for reward in rewards]
    differences = [reward - total / number for reward in rewards]
    if estimator == Estimator.DR_GRPO:
        return differences
    divisor = _divisor(estimator, rewards, batch)
    return [difference / divisor for difference in differences]


def differing(
    estimator: str, rewards: Sequence[float], recorded: Sequence[float], batch: Sequence[float] | None
) -> list[int]:
    """Return places of the samples whose recorded advantage differs by more than rounding explains."""
    divided = estimator in (Estimator.GRPO, Estimator.GRPO_BATCH)
    divisor = _divisor(estimator, rewards, batch) if divided else 1.0
    rounding = _ROUNDING * max(1.0, *map(abs, rewards)) / divisor
    computed = compute(estimator, rewards, batch)
    return [
        place
        for place, (expected, other) in enumerate(zip(computed, recorded, strict=True))
        if abs(expected - other) > _SHARE * max(1.0, abs(expected)) + rounding
    ]


def _divisor(estimator: str, rewards: Sequence[float], batch: Sequence[float] | None) -> float:
    return _deviation(batch if estimator == Estimator.GRPO_BATCH and batch else rewards) + _EPSILON


def _deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample."""
    if len(values) < 2:  # noqa: PLR2004 - one value has none
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
