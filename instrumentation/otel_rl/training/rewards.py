"""Scores of reward functions: a histogram per function.

What counts as a score is the same everywhere: a Python or NumPy number, or a tensor of one element in the host's
memory. A boolean is 1 or 0. None says that the function does not apply, and so does NaN in a batch: neither is counted
as lost. Everything else is dropped and counted (``unsupported_type``, ``non_finite``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes, metrics
from otel_rl.telemetry import drops
from otel_rl.telemetry.attribute_values import number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.telemetry import Scope


def record(scope: Scope, name: str, scores: Iterable[Any]) -> None:
    """Record the scores that the reward function ``name`` gave the samples of this process."""
    given: list[float] = []
    for score in scores:
        if score is None:
            continue
        value = number(score)
        if value is None:
            drops.count("metrics", "unsupported_type")
        elif value == value:  # noqa: PLR0124 - false for NaN only
            given.append(float(value))
    scope.record_all(metrics.RL_REWARD_SCORE, given, {attributes.RL_REWARD_NAME: name})
