"""Scores that reached no sample, and whether durations of reward functions were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, thresholds
from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.core.levels import ENOUGH
from otel_rl.report.subjects import workload
from otel_rl.report.subjects.calls.lines import of_rewards
from otel_rl.report.subjects.rewards import scores
from otel_rl.report.subjects.trajectories import totals

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

_OUTSIDE = "reward_without_sample"
UNSCORED = "missing_scores"
#: Samples of a trainer, all of which it gives to each of its functions, and those that got a score which is a number.
_SCORED = """
WITH scored AS (SELECT process, name, count(value) AS number FROM score
                WHERE kind = 'score' AND sample IN (SELECT sample FROM sample WHERE source = 'trainer') GROUP BY 1, 2),
     samples AS (SELECT process, count(*) AS number FROM sample WHERE source = 'trainer' GROUP BY 1)
SELECT name, sum(samples.number) AS samples, sum(scored.number) AS scored FROM scored JOIN samples USING (process)
GROUP BY name ORDER BY name"""
_NOT_NAMED = "name the functions in OTEL_RL_REWARD_FUNCTIONS, or mark them with otel_rl.reward_function"


def findings(collected: Collected, _known: Known) -> list[Finding]:
    """Return scores that are no number, and a notice where no sample has one: they came after the rollouts ended."""
    return [*_missing_scores(collected), *_outside(collected)]


def _missing_scores(collected: Collected) -> list[Finding]:
    """Return functions that gave some samples no number; of several a function may leave samples to the others."""
    found, rows = [], scored(collected)
    for name, samples, number in rows:
        missing = samples - number
        if not thresholds.is_notable_number(missing, samples):
            continue
        severity = Severity.WARNING if len(rows) == 1 else Severity.NOTICE
        share = f"{human.number(missing)} of {human.amount(samples, 'score')}"
        text = f"{share} of reward function {name} are None or not a number."
        finding = Finding(UNSCORED, severity, text, "rewards", subject=name, cost=missing / samples)
        finding.look_at.append("what the function returns for these samples, and whether it catches its own errors")
        found.append(finding)
    return found


@asked_once
def scored(collected: Collected) -> list[tuple[str, int, int]]:
    """Return name, samples and numbers of the reward functions of a trainer."""
    return [(row["name"], row["samples"], row["scored"]) for row in collected.tables.rows(_SCORED)]


def _outside(collected: Collected) -> list[Finding]:
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
