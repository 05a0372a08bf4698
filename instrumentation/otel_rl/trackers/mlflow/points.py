"""Values of one log call, on their way to the tracking server."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Most values of one item of the queue, so that the bound of the queue bounds its memory too.
MOST_VALUES = 100
#: A step beyond 64 bit is stored as 0.
_STEPS = 1 << 63
_NS_PER_MS = 1_000_000


class LoggedPoints(NamedTuple):
    """The step, when it was logged, in ms since the epoch, and the values by key."""

    step: int
    timestamp: int
    values: tuple[tuple[str, float], ...]


def of_log_call(
    iteration: int | None, values: Mapping[str, Any], timestamp: int, loop: str | None
) -> list[LoggedPoints]:
    """Return the numbers of a log call; ``timestamp`` in ns since the epoch.

    Keys of a ``loop`` with a name begin with it: its steps are numbered apart from those of other loops.
    """
    step = 0 if iteration is None else iteration
    prefix = f"{loop}/" if loop else ""
    numbers = [(f"{prefix}{key}", value) for key, value in values.items() if type(value) in (int, float)]
    if not -_STEPS <= step < _STEPS:
        drops.count(Signal.METRICS, "step_range", len(numbers))
        return []
    finite = [(key, value) for key, value in numbers if math.isfinite(value)]
    drops.count(Signal.METRICS, "non_finite", len(numbers) - len(finite))
    parts = (tuple(finite[start : start + MOST_VALUES]) for start in range(0, len(finite), MOST_VALUES))
    return [LoggedPoints(step, timestamp // _NS_PER_MS, part) for part in parts]


def count(items: Iterable[LoggedPoints]) -> int:
    """Return the number of values."""
    return sum(len(item.values) for item in items)
