"""Scores of reward functions: a histogram per function.

What counts as a score is the same everywhere: a Python or NumPy number, or a tensor of one element in the host's
memory. A boolean is 1 or 0. None says that the function does not apply, and so does NaN in a batch: neither is counted
as lost. Everything else is dropped and counted (``unsupported_type``, ``non_finite``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current

from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, drops
from otel_rl.telemetry.attribute_values import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.context import Context

    from otel_rl.telemetry import Scope


def record(scope: Scope, by_function: Mapping[str, Iterable[Any]], context: Context | None = None) -> None:
    """Record the scores that reward functions, by name, gave the samples of this process.

    An I/O thread reads them later: they must not hold tensors of the program.
    """
    context = get_current() if context is None else context
    deferral.post(Signal.METRICS, lambda: _record(scope, by_function, context))


def _record(scope: Scope, by_function: Mapping[str, Iterable[Any]], context: Context) -> None:
    for name, scores in by_function.items():
        scope.record_all(metrics.RL_REWARD_SCORE, _given(scores), {attributes.RL_REWARD_NAME: name}, context)


def _float(value: float) -> float:
    """Infinite where a number of Python is larger than a float can be."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _given(scores: Iterable[Any]) -> list[float]:
    scores = list(scores)
    if set(map(type, scores)) == {float}:
        return [score for score in scores if score == score]  # noqa: PLR0124 - false for NaN only
    given: list[float] = []
    for score in scores:
        if score is None:
            continue
        value = score if type(score) is float else number(score)
        if value is None:
            drops.count("metrics", "unsupported_type")
        elif value == value:  # noqa: PLR0124 - false for NaN only
            given.append(_float(value))
    return given
