"""Whether one rank is the late one more often than by accident."""

from __future__ import annotations

from math import exp, lgamma, log

from otel_rl.report.core import thresholds


def is_often(late: int, steps: int, ranks: int) -> bool:
    """Return whether a rank is the late one in most steps, and more often than by chance."""
    return chance(late, steps, ranks) <= thresholds.LATE_BY_CHANCE


def chance(late: int, steps: int, ranks: int) -> float:
    """Return how likely one rank is the late one so often by accident (a binomial test); 1 below most steps."""
    if late < thresholds.LATE_STEPS * steps:
        return 1.0
    share = 1 / max(ranks, 2)
    orders = [lgamma(steps + 1) - lgamma(number + 1) - lgamma(steps - number + 1) for number in range(late, steps + 1)]
    logarithms = [
        order + number * log(share) + (steps - number) * log(1 - share) for number, order in enumerate(orders, late)
    ]
    return sum(map(exp, logarithms))
