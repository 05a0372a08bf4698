"""What the steps lose to a change: no more than they became longer, where it may lie beside something else."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Protocol

from otel_rl.report.core import thresholds

if TYPE_CHECKING:
    from otel_rl.report.core.lines import Line

#: How many of the steps just before a change tell their usual length, besides half of them and all. The least of these
#: means counts: a warm-up is no usual length, nor are the longer ones of steps of two kinds.
_NEAREST = (2, 4, 8)


class Change(Protocol):
    """When something takes longer, and by how much."""

    ranks: list[int | None]
    onset: int
    last: int
    extra: float


def lost_seconds(change: Change, spent: float, steps: dict[int | None, Line], at_once: dict[int | None, Line]) -> float:
    """Return the seconds of a change in the steps that these lost, per rank where it is of a rank.

    What runs beside a phase may cost nothing: of that no more counts than the steps became longer. Nor does more of a
    change that would be critical, where something else in the steps became shorter.

    Args:
        change: what takes ``change.extra`` seconds more.
        spent: seconds of the steps while it lasted.
        steps: their lengths, by rank.
        at_once: the part of them in which a phase ran beside another one, by rank.
    """
    of_ranks = [rank for rank in change.ranks if rank in steps]
    ranks = of_ranks or list(steps)
    beside = sum(at_once[rank].total_between(change.onset, change.last) for rank in ranks if rank in at_once)
    longer = sum(_longer(steps[rank], change) for rank in ranks)
    if of_ranks:
        beside, longer = beside / len(ranks), longer / len(ranks)
    would_be_critical = change.extra >= thresholds.CRITICAL_SHARE * spent
    certain = 0.0 if would_be_critical else max(change.extra - beside, 0.0)
    return max(min(change.extra, longer), certain)


def _longer(steps: Line, change: Change) -> float:
    """Return the seconds by which the steps of a rank became longer with a change."""
    before = bisect_left(steps.x, change.onset)
    if not before:
        return change.extra
    usual = min(_mean(steps, before - number, before) for number in (*_NEAREST, before // 2, before) if number)
    during = slice(before, bisect_right(steps.x, change.last))
    return sum(steps.totals[during]) - usual * sum(steps.numbers[during])


def _mean(steps: Line, first: int, end: int) -> float:
    part = slice(max(first, 0), end)
    return sum(steps.totals[part]) / sum(steps.numbers[part])
