"""Whether durations of reward functions were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.change_points import ENOUGH
from otel_rl.report.core.finding import Check
from otel_rl.report.subjects import workload
from otel_rl.report.subjects.rewards.aggregate import Rewards

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected

_NOT_NAMED = "name the functions in OTEL_RL_REWARD_FUNCTIONS, or mark them with otel_rl.reward_function"


def checks(collected: Collected) -> list[Check]:
    """Return whether the functions could be compared over the steps."""
    what, codes = "reward functions that become slower", ("slower_reward", "slow_reward")
    lines = collected[Rewards].functions.lines()
    if lines:
        longest = max(lines.values(), key=lambda line: line.count)
        calls = human.amount(sum(line.count for line in lines.values()), "call")
        return [Check.of(what, len(longest.x) * longest.width, ENOUGH, "step", codes, calls)]
    if workload.of(collected).learns_from_samples:
        return [Check.not_recorded(what, _NOT_NAMED, codes)]
    return [Check.not_applicable(what, "no reward function was called", codes)]
