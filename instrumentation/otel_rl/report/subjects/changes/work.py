"""What takes longer without being slower: there is more to do, or others have the CPUs."""

from __future__ import annotations

from math import log
from statistics import median
from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.subjects.changes import quantities
from otel_rl.report.subjects.changes.quantities import Link
from otel_rl.report.subjects.changes.series import BETWEEN_STEPS, SeriesKind, all_series
from otel_rl.semconv.attributes import RlPhaseValues as Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.changes.series import LevelChange, StepSeries

#: Growth of the work that counts, and the share of the growth of a duration that it must be, both as logarithms: the
#: time of attention grows with the square of the tokens.
_MORE_WORK, _OF_DURATION = log(1.15), 0.5
#: Share of the longer time for which the thread of the steps waited for a CPU.
_OF_BUSY = 0.5
#: Parts of a step that take no longer for longer answers.
_OF_OTHER_SIZES = frozenset(
    {Phase.CHECKPOINT, Phase.LOAD, Phase.SYNC, Phase.WEIGHT_SYNC, Phase.EVALUATE, Phase.OPTIMIZER, *BETWEEN_STEPS}
)
#: Points on either side that are compared.
_FEWEST = 2


def reason(change: LevelChange, collected: Collected) -> str:
    """Return why a change is no fault of the program, in a sentence; ``""`` where it may be one."""
    if not change.by_step or change.kind.is_rate:
        return ""
    return _busy(change, collected) or _more_work(change, collected)


def reason_in(series: StepSeries, steps: set[int], collected: Collected) -> str:
    """Return that there is more to do in some steps, in a sentence; ``""`` where that does not explain a series."""
    levels = _medians(series.line.x, series.values, steps)
    if levels is None or levels[0] <= 0:
        return ""
    least = max(_MORE_WORK, _OF_DURATION * log(levels[1] / levels[0]))
    for work in quantities.of_run(collected):
        more = _medians(work.x, work.values, steps) if _is_work_of(work, series.kind, series.name) else None
        if more is not None and more[0] > 0 and more[1] > 0 and log(more[1] / more[0]) >= least:
            return f"There is more to do: {work.name} is {work.unit(more[1])} then, and {work.unit(more[0])} else."
    return ""


def _medians(x: Sequence[int], values: Iterable[float], steps: set[int]) -> tuple[float, float] | None:
    """Return the medians in the other steps and in these."""
    return _compared(zip(x, values, strict=True), lambda at: at in steps)


def _compared(pairs: Iterable[tuple[int, float]], is_own: Callable[[int], bool | None]) -> tuple[float, float] | None:
    """Return the medians of two groups; None where one of them is not known, and what is in neither is left out."""
    groups: dict[bool | None, list[float]] = {False: [], True: [], None: []}
    for at, value in pairs:
        groups[is_own(at)].append(value)
    is_known = min(len(groups[False]), len(groups[True])) >= _FEWEST
    return (median(groups[False]), median(groups[True])) if is_known else None


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
        if not _is_work_of(work, change.kind, change.name):
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


def _is_work_of(work: quantities.Watched, kind: SeriesKind, name: str) -> bool:
    is_counted = work.link in (Link.TOKENS, Link.ROLLOUT) and work.unit is human.number
    if not work.by_step or not (is_counted or work.section == "tools"):
        return False
    if work.name == quantities.ROLLOUTS:
        # They are made at once, and share servers and tools.
        return True
    if kind is SeriesKind.MODEL and work.section == "models":
        return work.subject == name.partition(" ")[2]
    return kind not in (SeriesKind.TOOL, SeriesKind.REWARD, SeriesKind.PAUSE) and name not in _OF_OTHER_SIZES


def _levels(x: Sequence[int], values: Iterable[float], change: LevelChange) -> tuple[float, float] | None:
    """Return the medians before a change and while it lasts."""
    return _compared(
        zip(x, values, strict=True), lambda at: False if at < change.onset else True if at <= change.last else None
    )
