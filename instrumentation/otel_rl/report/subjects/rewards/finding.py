"""Whether durations of reward functions were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.finding import Check
from otel_rl.report.subjects.rewards.aggregate import Rewards

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected


def checks(collected: Collected) -> list[Check]:
    """Return whether the functions could be compared."""
    unobserved = "" if collected[Rewards].functions.lines() else "no duration was recorded"
    return [Check("reward functions", unobserved, ("slower_reward", "slow_reward"))]
