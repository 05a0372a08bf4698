"""The ranks that others waited for in the last steps, from the flight recorders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.ranks.stragglers.lasting import together
from otel_rl.report.core import human, thresholds
from otel_rl.report.core.finding import Finding, Severity
from otel_rl.report.subjects.ranks import sentences
from otel_rl.report.subjects.ranks.own_work import FEWEST_STEPS
from otel_rl.report.subjects.ranks.told import number_of_steps

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_rl.ranks.stragglers.lasting import Lateness
    from otel_rl.ranks.stragglers.run import RunComparison
    from otel_rl.report.core.collected import Collected


def late_ranks(collected: Collected, known: Collection[int]) -> list[Lateness]:
    """Return the ranks that were late, at each place; ``known`` are those of which the whole run says so."""
    comparison = collected.rings.comparison
    if comparison is None or len(comparison.steps) < FEWEST_STEPS:
        return []
    return together([one for one in comparison.lateness() if _is_notable(one, is_known=one.rank in known)])


def places(collected: Collected) -> dict[int, str]:
    """Return rank -> where it worked longer than the fastest, of the place that cost most."""
    comparison = collected.rings.comparison
    late = sorted(comparison.lateness(), key=lambda one: one.lost * len(one.steps)) if comparison is not None else []
    return {one.rank: sentences.where(one.worst.phase, collected.steps) for one in late}


def findings(collected: Collected, late: list[Lateness]) -> list[Finding]:
    """Return one finding for each of these ranks."""
    comparison = collected.rings.comparison
    by_rank: dict[int, list[Lateness]] = {}
    for one in late:
        by_rank.setdefault(one.rank, []).append(one)
    return [_finding(collected, comparison, of_rank, late) for of_rank in by_rank.values() if comparison is not None]


def _is_notable(one: Lateness, *, is_known: bool) -> bool:
    if len(one.late) < FEWEST_STEPS or one.lost < thresholds.NOTABLE_SECONDS or one.share < thresholds.NOTABLE_SHARE:
        return False
    # Beside the finding on the whole run it says more of the same. Alone, the steps have been picked from all of them.
    return is_known or one.chance * one.starts <= thresholds.LATE_BY_CHANCE


def _finding(collected: Collected, comparison: RunComparison, of_rank: list[Lateness], late: list[Lateness]) -> Finding:
    rank = of_rank[0].rank
    at_once = [other for other in late if any(other.overlaps(one) for one in of_rank)]
    beside = {other.rank for other in at_once} - {rank}
    # The dearest of a place comes first.
    at_places = {one.place: one.lost for one in reversed(at_once)}
    text = " ".join(_sentence(one, comparison, collected) for one in of_rank)
    text += sentences.mending(rank, sum(one.alone for one in of_rank), sum(at_places.values()), beside)
    first = min((one.steps[0] for one in of_rank), key=comparison.steps.index)
    cost = min(sum(_share_of_run(one, collected) for one in of_rank), 1.0)
    onset = None if first is comparison.steps[0] else first.key.iteration
    return Finding(
        "late_rank", Severity.WARNING, text, "ranks", chart="own-work", cost=cost, onset=onset, ranks=[rank],
        look_at=[sentences.look_at(rank)],
    )  # fmt: skip


def _sentence(one: Lateness, comparison: RunComparison, collected: Collected) -> str:
    where = sentences.where(one.worst.phase, collected.steps)
    first, last = one.steps[0].key.iteration, one.steps[-1].key.iteration
    when = f"since step {first}" if one.steps[-1] is comparison.steps[-1] else f"from step {first} to {last}"
    return (
        f"Rank {one.rank} worked longer than the fastest{f' {where}' if where else ''} in {len(one.late)} of"
        f" {human.amount(len(one.steps), 'compared step')} {when}: that cost the others, who waited in"
        f" {one.worst.operation}, {human.duration(one.lost)} ({human.percent(one.share)}) of each."
    )


def _share_of_run(one: Lateness, collected: Collected) -> float:
    """Return the share of the run that was surely lost: the rings know the last steps only."""
    steps = number_of_steps(collected)
    return float(one.share * min(len(one.steps) / steps, 1.0)) if steps else float(one.share)
