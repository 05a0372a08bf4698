"""Scores that reached no sample, and whether durations of reward functions were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.core.levels import ENOUGH
from otel_rl.report.subjects import workload
from otel_rl.report.subjects.calls.lines import of_rewards
from otel_rl.report.subjects.rewards import scores
from otel_rl.report.subjects.trajectories import totals

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

_OUTSIDE = "reward_without_sample"
_NOT_NAMED = "name the functions in OTEL_RL_REWARD_FUNCTIONS, or mark them with otel_rl.reward_function"


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return a notice where scores came, and no sample has one: they came after the rollouts had ended."""
    names, trajectories = scores.outside(collected), totals.of_run(collected)
    if not names or not trajectories.ended or trajectories.rewarded:
        return []
    scored = f"{human.amount(trajectories.ended, 'sample')} {'has' if trajectories.ended == 1 else 'have'} no reward"
    text = f"{scored}: {human.listed(names)} came outside of a rollout, or after it had ended, and belongs to none."
    advice = "Score before the rollout ends: inside of `with otel_rl.rollout()`, or mark the function around both."
    return [Finding(_OUTSIDE, Severity.NOTICE, text, "rewards", look_at=[advice])]


def checks(collected: Collected) -> list[Check]:
    """Return whether the functions could be compared over the steps."""
    what, codes = "reward functions that become slower", ("slower_reward", "slow_reward")
    lines = of_rewards(collected, "seconds")
    if lines:
        longest = max(lines.values(), key=lambda line: line.count)
        calls = human.amount(sum(line.count for line in lines.values()), "call")
        return [Check.of(what, len(longest.x), ENOUGH, "step", codes, calls)]
    if workload.of(collected).learns_from_samples:
        return [Check.not_recorded(what, _NOT_NAMED, codes)]
    return [Check.not_applicable(what, "no reward function was called", codes)]
