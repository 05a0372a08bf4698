"""Ranks that were late as the job told while it ran."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from otel_rl.report.core import human, thresholds
from otel_rl.report.core.finding import Finding, Severity
from otel_rl.report.core.loops import written
from otel_rl.report.core.steps import counted
from otel_rl.report.subjects.ranks import sentences
from otel_rl.report.subjects.ranks.reported import late_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.ranks.reported import LateRank


def told(collected: Collected) -> dict[int, list[LateRank]]:
    """Return rank -> when it was late, in the steps that the page shows."""
    by_rank: dict[int, list[LateRank]] = {}
    for stretch in late_ranks(collected):
        if _is_shown(stretch, collected):
            by_rank.setdefault(stretch.rank, []).append(stretch)
    return by_rank


def finding(collected: Collected, stretches: list[LateRank], *, is_earlier: bool) -> Finding:
    """Return the finding on one rank; ``is_earlier``: it was late before the job told so."""
    worst, cost = max(stretches, key=lambda stretch: stretch.share), share_of_steps(collected, stretches)
    up_to = "up to " if len(stretches) > 1 else ""
    lost = f"{up_to}{human.duration(worst.lost)} ({human.percent(worst.share)})"
    waited = f", who waited in {worst.operation}" if worst.operation else ""
    where = sentences.where(worst.phase, collected.steps)
    longer = f": it worked longer {where}" if where else ""
    steps = "in the compared steps " if is_earlier else ""
    would = (
        f"It cost {lost} of each step for the others{waited}."
        if worst.beside
        else f"Without it each step would have been {lost} shorter for the others{waited}."
    )
    text = (
        f"Rank {worst.rank} was late {steps}{_when(stretches)}, as was told while the job ran{longer}. {would}"
        f"{sentences.mending(worst.rank, worst.alone, worst.all_lost, worst.beside)}"
    )
    return Finding(
        "late_rank", _severity(cost), text, "ranks", chart="own-work", cost=cost, onset=stretches[0].since,
        ranks=[worst.rank], look_at=[sentences.look_at(worst.rank)],
    )  # fmt: skip


def is_notable(collected: Collected, stretches: list[LateRank], cost: float | None) -> bool:
    """Return whether it lasts, or is over and has cost something."""
    if cost is None or cost >= thresholds.NOTABLE_SHARE or any(stretch.until is None for stretch in stretches):
        return True
    lost = sum(stretch.lost * _steps_between(collected, since, until) for stretch, since, until in _apart(stretches))
    return lost >= thresholds.LOST_SECONDS


def share_of_steps(collected: Collected, stretches: list[LateRank]) -> float | None:
    """Return the share of all steps' time that the others lost; None where the steps are not known."""
    late = [(stretch.share, _steps_between(collected, since, until)) for stretch, since, until in _apart(stretches)]
    if not any(number for _, number in late):
        return None
    return float(min(sum(share * number for share, number in late) / number_of_steps(collected), 1.0))


def number_of_steps(collected: Collected) -> float:
    """Return the steps of the rank with most of them."""
    traced = max((totals.steps.count for totals in collected.steps.ranks.values()), default=0)
    return max(traced, counted(collected.steps, collected.totals)) if collected.steps.guessed else traced


def _is_shown(stretch: LateRank, collected: Collected) -> bool:
    if not collected.steps.ranks:
        # No step was traced; the page is on the latest attempt.
        return stretch.attempt not in collected.superseded
    shown = collected.loops.shown
    # Where the numbers began again in a process, the event does not say whether it is of the steps before that.
    return (written(stretch.attempt), stretch.loop) == (shown.attempt, shown.loop) and not shown.restarts


def _severity(cost: float | None) -> Severity:
    """Return the severity: what cost little over the run is a notice, however late the rank was."""
    if cost is None:
        return Severity.WARNING
    if cost >= thresholds.CRITICAL_SHARE:
        return Severity.CRITICAL
    return Severity.WARNING if cost >= thresholds.NOTABLE_SHARE else Severity.NOTICE


def _when(stretches: list[LateRank]) -> str:
    first, ends = stretches[0].since, [stretch.until for stretch in stretches if stretch.until is not None]
    when = f"since step {first}" if len(ends) < len(stretches) else f"from step {first} to {max(ends)}"
    number = sum(stretch.since == since for stretch, since, _ in _apart(stretches))
    return when if number == 1 else f"{when}, in {number} stretches"


def _apart(stretches: list[LateRank]) -> Iterator[tuple[LateRank, int, float]]:
    """Return each with its first and last iteration; what several processes have reported comes once."""
    ends: dict[tuple[tuple[int, ...], str], float] = {}
    for stretch in stretches:
        loop = (stretch.attempt, stretch.loop)
        reported = ends.get(loop, -inf)
        if stretch.last > reported:
            ends[loop] = stretch.last
            yield stretch, int(max(stretch.since, reported + 1)), stretch.last


def _steps_between(collected: Collected, since: int, until: float) -> float:
    """Return the steps of the rank with most of them: there are loops whose iterations count samples."""
    lines = collected.steps.by_rank.values()
    last = int(min(until, 2**62))
    return max((line.count_between(since, last) for line in lines), default=0)
