"""What takes longer without being slower: there is more to do, or others have the CPUs."""

from __future__ import annotations

from math import log
from statistics import median
from typing import TYPE_CHECKING

from otel_rl.report.core import human, thresholds
from otel_rl.report.core.links import Link
from otel_rl.report.subjects.changes import quantities
from otel_rl.report.subjects.changes.series import BETWEEN_STEPS, LevelChange, SeriesKind, all_series
from otel_rl.semconv.attributes import RlPhaseValues as Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.changes.series import StepSeries

    _LevelsOf = Callable[[quantities.Watched], tuple[float, float] | None]

#: Growth of the work that counts, and the share of the growth of a duration that it must be, both as logarithms: the
#: time of attention grows with the square of the tokens.
_MORE_WORK, _OF_DURATION = log(1.15), 0.5
#: Parts of a step that take no longer for longer answers.
_OF_OTHER_SIZES = frozenset(
    {Phase.CHECKPOINT, Phase.LOAD, Phase.SYNC, Phase.WEIGHT_SYNC, Phase.EVALUATE, Phase.OPTIMIZER, *BETWEEN_STEPS}
)
_SECOND = "SELECT min(started) / 1000000000 FROM steps WHERE step >= ?"
#: Points on either side that are compared.
_FEWEST = 2


def reason(change: LevelChange, collected: Collected) -> str:
    """Return why a change is no fault of the program, in a sentence; ``""`` where it may be one."""
    if change.kind.is_rate:
        return ""
    if change.by_step and (busy := _busy(change, collected)):
        return busy
    works = quantities.of_run(collected)
    # How long a rollout waits for others does not show how much more there is to do.
    longer = 1.0 if change.kind is SeriesKind.FIRST_CALL else _longer(change, collected)
    lasts = {by_step: _lasts(change, collected, by_step=by_step) for by_step in {work.by_step for work in works}}
    found = _more_work(works, change, longer, lambda work: _levels(work.x, work.values, lasts[work.by_step]))
    return "There is more to do: {} went from {} to {}.".format(*found) if found else ""


def reason_in(series: StepSeries, steps: set[int], collected: Collected) -> str:
    """Return why a series is high in some steps, if these have more to do, in a sentence; else ``""``."""
    levels = _medians(series.line.x, series.values, steps)
    if levels is None or levels[0] <= 0:
        return ""
    found = _more_work(
        quantities.of_run(collected),
        series,
        levels[1] / levels[0],
        lambda work: _medians(work.x, work.values, steps) if work.by_step else None,
    )
    return "There is more to do: {0} is {2} in these steps, {1} in others.".format(*found) if found else ""


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
    longer = [_levels(line.x, line.means, (change.onset, change.last)) for line in steps.by_rank.values()]
    waits = [_levels(line.x, line.means, (change.onset, change.last)) for line in steps.cpu_waits.values()]
    more = max((after - before for before, after in filter(None, longer)), default=0.0)
    before, after = max(filter(None, waits), key=lambda level: level[1] - level[0], default=(0.0, 0.0))
    if more <= 0 or after - before < thresholds.OF_BUSY * more:
        return ""
    return (
        f"The machine was busy: the thread of the steps waited {human.duration(after)} a step for a CPU that others had"
        f" ({human.duration(before)} before)."
    )


def _longer(change: LevelChange, collected: Collected) -> float:
    """Return how many times as long the changed series became, on the rank where it grew most."""
    own = [
        levels
        for series in all_series(collected)
        if (series.kind, series.name, series.place) == (change.kind, change.name, change.place)
        and series.rank in change.ranks
        and (levels := _levels(series.line.x, series.values, (change.onset, change.last))) is not None
    ]
    return max((after / before for before, after in own if before > 0), default=1.0)


def _more_work(
    works: list[quantities.Watched], of: LevelChange | StepSeries, longer: float, levels_of: _LevelsOf
) -> tuple[str, str, str] | None:
    """Return what there is more of, with both amounts as texts, if that explains why ``of`` takes longer."""
    least = max(_MORE_WORK, _OF_DURATION * log(longer))
    for work in works:
        levels = levels_of(work) if _is_work_of(work, of.kind, of.name) else None
        if levels is not None and min(levels) > 0 and log(levels[1] / levels[0]) >= least:
            return work.name, work.unit(levels[0]), work.unit(levels[1])
    return None


def _is_work_of(work: quantities.Watched, kind: SeriesKind, name: str) -> bool:
    if name == Phase.CHECKPOINT:
        return work.section == "checkpoints"
    is_counted = work.link in (Link.TOKENS, Link.ROLLOUT) or (work.link is Link.DATA and not work.better)
    if not (is_counted and work.unit is human.number) and work.section != "tools":
        return False
    if work.name == quantities.ROLLOUTS:
        # They are made at once, and share servers and tools.
        return True
    if kind is SeriesKind.MODEL and work.section == "models":
        return work.subject == name.partition(" ")[2]
    return kind not in (SeriesKind.TOOL, SeriesKind.REWARD, SeriesKind.PAUSE) and name not in _OF_OTHER_SIZES


def _lasts(change: LevelChange, collected: Collected, *, by_step: bool) -> tuple[int, int] | None:
    """Return the first and last step of a change, or its first and last second since the epoch; None if not known."""
    if change.by_step == by_step:
        return change.onset, change.last
    if by_step:
        return None
    began, over = (collected.tables.value(_SECOND, step) for step in (change.onset, change.last + 1))
    return None if began is None else (began, over or 1 << 62)


def _levels(x: Sequence[int], values: Iterable[float], lasts: tuple[int, int] | None) -> tuple[float, float] | None:
    """Return the medians before a change and while it lasts."""
    if lasts is None:
        return None
    begin, end = lasts
    return _compared(zip(x, values, strict=True), lambda at: False if at < begin else True if at <= end else None)


def reason_of_steps(onset: int, collected: Collected) -> str:
    """Return why steps are longer since ``onset``, if there is more to do or the machine is busy; else ``""``."""
    by_rank = collected.steps.by_rank
    last = max((line.x[-1] for line in by_rank.values() if line.x), default=onset)
    change = LevelChange(
        SeriesKind.STEP, name="", place="", ranks=[*by_rank], unchanged=[], onset=onset, last=last, lasts=True,
        by_step=True, before=0.0, after=0.0,
    )  # fmt: skip
    return reason(change, collected)
