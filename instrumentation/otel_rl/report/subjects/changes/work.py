"""What takes longer without being slower: there is more to do, or others have the CPUs."""

from __future__ import annotations

from math import log
from statistics import median
from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.subjects.changes import quantities
from otel_rl.report.subjects.changes.quantities import Link
from otel_rl.report.subjects.changes.series import SeriesKind, all_series

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.changes.series import LevelChange

#: Growth of the work that counts, and the share of the growth of a duration that it must be, both as logarithms: the
#: time of attention grows with the square of the tokens.
_MORE_WORK, _OF_DURATION = log(1.15), 0.5
#: Share of the longer time for which the thread of the steps waited for a CPU.
_OF_BUSY = 0.5
#: Points on either side that are compared.
_FEWEST = 2


def reason(change: LevelChange, collected: Collected) -> str:
    """Return why a change is no fault of the program, in a sentence; ``""`` where it may be one."""
    if not change.by_step or change.kind.is_rate:
        return ""
    return _busy(change, collected) or _more_work(change, collected)


def _busy(change: LevelChange, collected: Collected) -> str:
    steps = collected.steps
    longer = [_levels(line.x, line.means, change) for line in steps.by_rank.values()]
    waits = [_levels(line.x, line.means, change) for line in steps.cpu_waits.values()]
    more = max((after - before for before, after in filter(None, longer)), default=0.0)
    before, after = max(filter(None, waits), key=lambda level: level[1] - level[0], default=(0.0, 0.0))
    if more <= 0 or after - before < _OF_BUSY * more:
        return ""
    return (
        f"The machine was busy: the thread of the steps waited {human.duration(after)} a step for a CPU that others had"
        f" ({human.duration(before)} before)."
    )


def _more_work(change: LevelChange, collected: Collected) -> str:
    own = [
        levels
        for series in all_series(collected)
        if (series.kind, series.name, series.place) == (change.kind, change.name, change.place)
        and series.rank in change.ranks
        and (levels := _levels(series.line.x, series.values, change)) is not None
    ]
    longer = max((after / before for before, after in own if before > 0), default=1.0)
    for work in quantities.of_run(collected):
        if not _is_work_of(work, change):
            continue
        levels = _levels(work.x, work.values, change)
        if levels is None or levels[0] <= 0 or levels[1] <= 0:
            continue
        grown = log(levels[1] / levels[0])
        # How long a rollout waits for others says nothing of how much more there is to do.
        least = 0.0 if change.kind is SeriesKind.FIRST_CALL else _OF_DURATION * log(longer)
        if grown >= max(_MORE_WORK, least):
            return f"There is more to do: {work.name} went from {work.unit(levels[0])} to {work.unit(levels[1])}."
    return ""


def _is_work_of(work: quantities.Watched, change: LevelChange) -> bool:
    is_counted = work.link in (Link.TOKENS, Link.ROLLOUT) and work.unit is human.number
    if not work.by_step or not (is_counted or work.section == "tools"):
        return False
    if work.name == quantities.ROLLOUTS:
        # They are made at once, and share servers and tools.
        return True
    if change.kind is SeriesKind.MODEL and work.section == "models":
        return work.subject == change.name.partition(" ")[2]
    return change.kind not in (SeriesKind.TOOL, SeriesKind.REWARD, SeriesKind.PAUSE)


def _levels(x: Sequence[int], values: Iterable[float], change: LevelChange) -> tuple[float, float] | None:
    """Return the medians before a change and while it lasts; None where one of them is not known."""
    pairs = list(zip(x, values, strict=True))
    before = [value for at, value in pairs if at < change.onset]
    during = [value for at, value in pairs if change.onset <= at <= change.last]
    return (median(before), median(during)) if min(len(before), len(during)) >= _FEWEST else None
