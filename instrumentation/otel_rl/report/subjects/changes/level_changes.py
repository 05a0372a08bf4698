"""What takes longer since a step: the place it comes from, what it costs, and what follows from it."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from otel_rl.report.core import detectors, levels, thresholds
from otel_rl.report.core.lines import Line, merged
from otel_rl.report.core.steps import UNCOVERED
from otel_rl.report.subjects.calls import rollouts
from otel_rl.report.subjects.changes import recurring, work
from otel_rl.report.subjects.changes.lost_time import lost_seconds
from otel_rl.report.subjects.changes.series import (
    BETWEEN_STEPS,
    LevelChange,
    SeriesKind,
    StepSeries,
    all_series,
    in_rollouts,
)
from otel_rl.store.tables.load import MODEL, TOOL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.report.core.collected import Collected

#: Points before a duration began to grow, and how many times as long it has to be at the end.
_BEFORE, _GROWN = 8, 2.0


def level_changes(collected: Collected) -> list[LevelChange]:
    """Return changes that nothing else explains, each with those that it explains; the dearest first."""
    context = _Context(collected)
    changes = _gather_models(list(_changes(context)))
    dear = [change for change in changes if _is_dear(change)]
    roots: list[LevelChange] = []
    for change in sorted(dear, key=lambda change: (_rank_of_kind(change, context), -change.extra)):
        cause = next((root for root in roots if _explains(root, change)), None)
        if cause is not None:
            cause.symptoms.append(change)
        elif _is_cause(change):
            roots.append(change)
    for root in roots:
        root.all_lose = context.all_lose(root)
    roots = [_of_late_rank(root, context) if root.kind is SeriesKind.WAIT else root for root in roots]
    for change in [*roots, *(symptom for root in roots for symptom in root.symptoms)]:
        change.reason = work.reason(change, collected)
    return sorted(roots, key=lambda change: -change.share)


def _is_dear(change: LevelChange) -> bool:
    return change.hidden or change.share >= thresholds.NOTABLE_SHARE or change.kind is SeriesKind.RETRIED


def _is_cause(change: LevelChange) -> bool:
    """Return whether it is a finding of its own, and not only a symptom of another."""
    if not change.kind.is_function and change.extra < thresholds.LOST_SECONDS:
        return False
    return change.kind < SeriesKind.WORK or change.after >= thresholds.SLOWER * change.before


class _Context:
    """What changes are measured against."""

    def __init__(self, collected: Collected) -> None:
        self.collected = collected
        self.steps, self.gaps = collected.steps.by_rank, collected.steps.gaps
        self._in_rollouts = in_rollouts(collected)
        seconds = rollouts.over_steps(collected, "seconds")
        self.rollouts: Line = merged(seconds, lambda _: None).get(None, Line())
        self.parts, self.at_once = collected.steps.parts, collected.steps.at_once
        self.waiting: dict[int | None, StepSeries] = {}
        self.work: dict[int | None, StepSeries] = {}

    def is_in_rollouts(self, change: LevelChange) -> bool:
        if change.kind in (SeriesKind.ROLLOUT, SeriesKind.FIRST_CALL):
            return True
        kind = TOOL if change.kind is SeriesKind.TOOL else MODEL if change.kind.is_of_model else ""
        return (kind, change.name, change.place) in self._in_rollouts

    def is_tiny(self, series: StepSeries) -> bool:
        """Return whether a part of a step takes so little of the run that no change of it can be notable."""
        if series.kind not in (SeriesKind.PHASE, SeriesKind.REWARD, SeriesKind.PAUSE) or series.rank not in self.steps:
            return False
        return series.seconds < thresholds.TINY * self.steps[series.rank].total

    def spent(self, change: LevelChange) -> float:
        """Return the seconds of all steps, or rollouts, while it lasted; per rank where it is of a rank."""
        last = change.last
        if change.in_rollouts:
            return self.rollouts.total_between(change.onset, last)
        if change.by_step and self.steps:
            of_ranks = [self.steps[rank] for rank in change.ranks if rank in self.steps]
            seconds = [line.total_between(change.onset, last) for line in of_ranks or self.steps.values()]
            if of_ranks and change.name in BETWEEN_STEPS:
                gaps = [self.gaps[rank] for rank in change.ranks if rank in self.gaps]
                seconds += [line.total_between(change.onset, last) for line in gaps]
                return sum(seconds) / len(of_ranks)
            return fmean(seconds) if of_ranks else sum(seconds)
        return 0.0 if change.by_step else float(last + 1 - change.onset)

    def lost(self, change: LevelChange, spent: float) -> float:
        """Return the seconds that the steps, or rollouts, lost to it; ``spent`` are those of all of them."""
        if change.in_rollouts:
            return change.extra * len(change.ranks)
        is_part = change.kind <= SeriesKind.PHASE and change.by_step and change.name not in BETWEEN_STEPS
        return lost_seconds(change, spent, self.steps, self.at_once) if is_part else change.extra

    def all_lose(self, change: LevelChange) -> bool:
        """Return whether the steps of the unchanged ranks became longer by at least half of it."""
        if not change.by_step or change.in_rollouts or not change.unchanged:
            return False
        more = []
        for rank in change.unchanged:
            line = self.steps.get(rank)
            if line is None:
                return False
            points = list(zip(line.x, line.means, strict=True))
            before = [mean for x, mean in points if x < change.onset]
            during = [mean for x, mean in points if change.onset <= x <= change.last]
            if not before or not during:
                return False
            more.append(median(during) - median(before))
        steps = max(self.count(change), 1)
        return fmean(more) >= 0.5 * change.extra / steps

    def count(self, change: LevelChange) -> int:
        """Return the number of a rank's steps in which it lasted."""
        line = next((self.steps[rank] for rank in (*change.ranks, *change.unchanged) if rank in self.steps), None)
        if line is None:
            return 0
        return line.count_between(change.onset, change.last)

    def found_in(self, change: LevelChange, series: StepSeries) -> tuple[int, int] | None:
        """Return in how many of the steps the series has a value while the change lasts."""
        if change.kind is not SeriesKind.PHASE or (UNCOVERED, series.rank) not in self.parts:
            return None
        have, every = (
            sum(change.onset <= x <= change.last for x in line.x)
            for line in (series.line, self.parts[UNCOVERED, series.rank])
        )
        return have, every


def _changes(context: _Context) -> Iterable[LevelChange]:
    by_place: dict[tuple[SeriesKind, str, str], list[StepSeries]] = {}
    for series in all_series(context.collected):
        by_place.setdefault((series.kind, series.name, series.place), []).append(series)
        if series.kind is SeriesKind.WAIT:
            context.waiting[series.rank] = series
        if series.kind is SeriesKind.WORK:
            context.work[series.rank] = series
    for group in by_place.values():
        yield from _of_place(group, context)


def _rise(series: StepSeries, context: _Context) -> levels.Rise | None:
    """Return the rise of a series, without the steps in which a cost comes and goes: that is no level."""
    left_out = recurring.steps_of(series, context.collected)
    kept = [at for at, x in enumerate(series.line.x) if x not in left_out]
    # Of a part that only some of the steps have, all may be left out.
    if 2 * len(kept) > len(series.values) > len(kept):
        found = _look(replace(series, values=[series.values[at] for at in kept]))
        last = found is not None and found.last == len(kept) - 1
        return found and replace(
            found, first=kept[found.first], last=len(series.values) - 1 if last else kept[found.last]
        )
    key = (series.kind, series.name, series.place, series.rank)
    return context.collected.earlier_looks.rise(key, len(series.values), lambda: _look(series))


def _look(series: StepSeries) -> levels.Rise | None:
    if series.kind.is_rate:
        return levels.rise(series.values, factor=1.0, least=thresholds.NOTABLE_RATE, ratio=False)
    whole = series.kind in (SeriesKind.STEP, SeriesKind.WORK, SeriesKind.ROLLOUT)
    factor = thresholds.LONGER if whole else thresholds.SLOWER
    least = thresholds.NOTABLE_CHANGE / 10
    found = levels.rise(series.values, factor=factor, least=least)
    # A series that rises all the time has no levels. If it does so from the start it may only warm up.
    growth = detectors.growth(series.values) if found is None else None
    if growth is None or growth.first < _BEFORE or growth.after < max(_GROWN * growth.before, growth.before + least):
        return found
    return levels.Rise(growth.first, len(series.values) - 1, growth.before, growth.after, grows=True)


def _of_place(group: list[StepSeries], context: _Context) -> Iterable[LevelChange]:
    """Yield one change for all ranks on which the same thing rose at about the same step."""
    examined = [series for series in group if not context.is_tiny(series)]
    rises = [(series, rise) for series in examined if (rise := _rise(series, context)) is not None]
    rises.sort(key=lambda risen: risen[0].line.x[risen[1].first])
    risen = {series.rank for series, _ in rises}
    steady = [series for series in group if series.rank not in risen]
    while rises:
        onset, by_step = rises[0][0].line.x[rises[0][1].first], rises[0][0].line.by_step
        near = [
            risen
            for risen in rises
            if risen[0].line.by_step == by_step and risen[0].line.x[risen[1].first] - onset <= thresholds.TOGETHER
        ]
        rises = [risen for risen in rises if risen not in near]
        yield _change(near, steady, context)


def _change(rises: list[tuple[StepSeries, levels.Rise]], steady: list[StepSeries], context: _Context) -> LevelChange:
    first, _ = rises[0]
    ranks = [series.rank for series, _ in rises]
    onsets = sorted(series.line.x[rise.first] for series, rise in rises)
    change = LevelChange(
        kind=first.kind,
        name=first.name,
        place=first.place,
        ranks=ranks,
        unchanged=[
            series.rank
            for series in steady
            # Of a rank that was killed or hangs since then nothing is known.
            if series.rank is not None and _goes_on(series, rises)
        ],
        onset=onsets[len(onsets) // 2],
        last=max(series.line.x[rise.last] for series, rise in rises),
        lasts=any(rise.last == len(series.values) - 1 for series, rise in rises),
        by_step=first.line.by_step,
        before=fmean(rise.before for _, rise in rises),
        after=fmean(rise.after for _, rise in rises),
        grows=all(rise.grows for _, rise in rises),
        series=first,
    )
    change.found_in = context.found_in(change, first)
    if not change.kind.is_rate:
        change.extra = fmean(_extra(series, rise) for series, rise in rises)
        change.in_rollouts = context.is_in_rollouts(change)
        change.at_once = change.kind.is_function and all(_is_at_once(series) for series, _ in rises)
        spent = context.spent(change)
        if spent and _is_long(change, context):
            lost = context.lost(change, spent)
            change.hidden = lost < thresholds.NOTABLE_SHARE * spent <= change.extra
            change.share = 0.0 if change.hidden else min(lost / spent, 1.0)
    return change


def _goes_on(series: StepSeries, rises: list[tuple[StepSeries, levels.Rise]]) -> bool:
    """Return whether the series has at least half the points that those that rose have since then."""
    since = min(risen.line.x[rise.first] for risen, rise in rises)
    of_risen = max(sum(x >= since for x in risen.line.x) for risen, _ in rises)
    return 2 * sum(x >= since for x in series.line.x) >= of_risen


def _extra(series: StepSeries, rise: levels.Rise) -> float:
    span = range(rise.first, rise.last + 1)
    return max(sum((series.values[point] - rise.before) * series.times[point] for point in span), 0.0)


def _is_at_once(series: StepSeries) -> bool:
    return 2 * series.seconds <= series.line.total


def _is_long(change: LevelChange, context: _Context) -> bool:
    """Return whether a step, or a call in a rollout, loses some milliseconds; many short calls lose seconds in all."""
    steps = context.count(change)
    if (change.in_rollouts or not steps) and change.after - change.before >= thresholds.NOTABLE_CHANGE:
        return True
    if not steps or (change.in_rollouts and change.extra < thresholds.LOST_SECONDS):
        return False
    return change.extra / steps >= thresholds.NOTABLE_CHANGE


def _gather_models(changes: list[LevelChange]) -> list[LevelChange]:
    """Return one change per model and server: its latency, with first chunk, retries and failures below it."""
    rest = [change for change in changes if not change.kind.is_of_model]
    groups: dict[tuple[str, str], list[LevelChange]] = {}
    for change in changes:
        if change.kind.is_of_model:
            groups.setdefault((change.name, change.place), []).append(change)
    for group in groups.values():
        head, *others = sorted(group, key=lambda change: change.kind)
        head.with_it = [
            change for change in others if _is_near(head, change) or head.onset <= change.onset <= head.last
        ]
        rest.append(head)
    return [change for change in rest if change.kind is not SeriesKind.FAILED]


def _is_near(change: LevelChange, other: LevelChange) -> bool:
    return change.by_step == other.by_step and abs(change.onset - other.onset) <= thresholds.TOGETHER


def _rank_of_kind(change: LevelChange, context: _Context) -> int:
    """Return its place: causes come first, and a phase that is longer because it waits last."""
    if change.kind is not SeriesKind.PHASE:
        return int(change.kind)
    waited = [_more(context.waiting[rank], change) for rank in change.ranks if rank in context.waiting]
    steps = max(context.count(change), 1)
    return int(SeriesKind.WAIT if waited and fmean(waited) >= 0.5 * change.extra / steps else SeriesKind.PHASE)


def _of_late_rank(change: LevelChange, context: _Context) -> LevelChange:
    """Return the work of the rank that others wait longer for; the change itself where no rank came later.

    A little more work of one rank, which is no change by itself, is many times the usual waiting of the others.
    """
    others = [_more(context.work[rank], change) for rank in change.ranks if rank in context.work]
    mores = {rank: _more(context.work[rank], change) for rank in change.unchanged if rank in context.work}
    if not others or not mores:
        return change
    late = max(mores, key=mores.__getitem__)
    if mores[late] <= 0 or mores[late] - fmean(others) < (change.after - change.before) / 2:
        return change
    before = median(_around(context.work[late], change)[0])
    return replace(
        change, kind=SeriesKind.WORK, ranks=[late], unchanged=[rank for rank in change.ranks if rank is not None],
        before=before, after=before + mores[late], all_lose=True, symptoms=[change], series=context.work[late],
    )  # fmt: skip


def _more(series: StepSeries, change: LevelChange) -> float:
    """Return by how much a series is higher while a change lasts."""
    before, during = _around(series, change)
    return median(during) - median(before) if before and during else 0.0


def _around(series: StepSeries, change: LevelChange) -> tuple[list[float], list[float]]:
    """Return its values before a change, and those while that lasts."""
    pairs = list(zip(series.line.x, series.values, strict=True))
    return [value for x, value in pairs if x < change.onset], [
        value for x, value in pairs if change.onset <= x <= change.last
    ]


def _explains(root: LevelChange, change: LevelChange) -> bool:
    if root.hidden and not change.hidden:
        return False
    lost = root.extra * (len(root.ranks) if root.in_rollouts else 1)
    most = thresholds.EXPLAINED_WHOLE if change.kind >= SeriesKind.WORK else thresholds.EXPLAINED
    if root.by_step != change.by_step or change.extra > most * lost:
        return False
    if root.grows and change.grows and change.kind >= SeriesKind.PHASE:
        # A small increase shows in the whole only later.
        return change.onset >= root.onset - thresholds.TOGETHER
    if change.kind.is_function and change.kind == root.kind:
        # Two tools are two causes.
        return False
    if change.kind >= SeriesKind.WORK and root.onset - thresholds.TOGETHER <= change.onset <= root.last:
        return True
    return _is_near(root, change)
