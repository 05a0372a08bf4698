"""Whether rollouts were recorded, and whether few of them make the others wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity
from otel_rl.report.core.levels import ENOUGH
from otel_rl.report.core.totals import combined
from otel_rl.report.subjects.calls import rollouts
from otel_rl.report.subjects.rollouts import tail as tails
from otel_rl.report.subjects.rollouts.tail import FEWEST_ROLLOUTS, TailTotals
from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected, Known

_CHECKS = (
    ("rollouts that become slower", "slower_rollouts"),
    ("few rollouts that keep a step waiting", "generation_tail"),
)
_MOMENTS = "steps or seconds with rollouts"


def checks(collected: Collected) -> list[Check]:
    """Return whether the durations of rollouts could be compared."""
    of_run, tail = rollouts.of_run(collected), tail_of(collected)
    number = of_run.statistics.number
    if not number:
        return [Check.not_applicable(what, "no rollout was recorded", (code,)) for what, code in _CHECKS]
    (slower, slower_code), (waiting, waiting_code) = _CHECKS
    points = max((len(line.x) for line in rollouts.over_steps(collected, "seconds").values()), default=0)
    if points < ENOUGH:
        change = Check.of(slower, points, ENOUGH, "step or second with rollouts", (slower_code,), plural=_MOMENTS)
    else:
        change = Check.of(slower, of_run.fair.cell.count, 1, "rollout", (slower_code,))
    if tail is not None:
        basis = f"{human.percent(tail.share)} of the generation time of {human.amount(tail.steps, 'step')}"
        return [change, Check.of(waiting, tail.steps, thresholds.FEWEST_TAILS, "step", (waiting_code,), basis)]
    if not _is_complete(collected):
        return [change, Check.not_recorded(waiting, "a sampler has left rollouts out", (waiting_code,))]
    is_small = tails.most_of_a_step(collected) < FEWEST_ROLLOUTS
    reason = f"no step has {FEWEST_ROLLOUTS} rollouts" if is_small else "the rollouts of a step run one after the other"
    return [change, Check.not_applicable(waiting, reason, (waiting_code,))]


def findings(collected: Collected, _: Known) -> list[Finding]:
    """Return one notice where a few long rollouts take much of the generation time."""
    tail, steps = tail_of(collected), collected.steps.lengths.cell
    if tail is None or tail.steps < thresholds.FEWEST_TAILS or tail.share < thresholds.LONG_TAIL:
        return []
    cost = tail.tail / tail.steps / steps.mean if steps.count else None
    if cost is not None and cost < thresholds.NOTABLE_SHARE:
        return []
    found = Finding("generation_tail", Severity.NOTICE, in_words(tail), "rollouts", cost=cost)
    found.look_at = ["slowest rollouts", "limits of length, turns and time of a rollout", "asynchronous generation"]
    return [found]


def tail_of(collected: Collected) -> TailTotals | None:
    """Return the tails of the steps; None where there are none, or a sampler has left rollouts out."""
    return tails.of_latest_attempt(collected) if _is_complete(collected) else None


def _is_complete(collected: Collected) -> bool:
    """Return whether nearly all rollouts that were counted came as spans."""
    counted = combined(list(collected.totals.of(metrics.RL_ROLLOUT_DURATION))).cell.count
    return tails.number_of_rollouts(collected) >= thresholds.COMPLETE * counted


def in_words(tail: TailTotals) -> str:
    """Return one sentence."""
    return (
        f"In {human.percent(tail.share)} of the generation time fewer than a tenth of the step's rollouts are still"
        f" active ({human.amount(tail.steps, 'step')}; longest {human.duration(tail.longest)},"
        f" in step {human.number(tail.longest_step)})."
    )
