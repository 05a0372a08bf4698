"""A cost that comes every n-th step or in bursts, which means and medians hide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from otel_rl.report.core import detectors, human, levels, thresholds
from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.finding import Finding, Severity, around
from otel_rl.report.core.finding import recurring as recurring_code
from otel_rl.report.core.steps import UNCOVERED, whole_seconds
from otel_rl.report.subjects.calls import rollouts
from otel_rl.report.subjects.changes import change_sentences, work
from otel_rl.report.subjects.changes.series import BETWEEN_STEPS, SeriesKind, all_series, in_rollouts
from otel_rl.semconv.attributes import RlPhaseValues as Phase
from otel_rl.store.tables.load import MODEL, TOOL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.detectors import Recurrence
    from otel_rl.report.core.levels import Rise
    from otel_rl.report.core.lines import Line
    from otel_rl.report.subjects.changes.series import LevelChange, StepSeries

#: Share of the steps' time that is worth a warning, and the seconds that it must be.
_SHARE, _SECONDS = 0.1, 1.0
#: Parts that every step could have: where they are missing they took no time. Others come every few steps by design.
_OF_EACH_STEP = (UNCOVERED, *BETWEEN_STEPS)
#: Phases that are slow on purpose: their share of the run is judged.
_ON_PURPOSE = (Phase.EVALUATE, Phase.CHECKPOINT)
_KINDS = [
    kind for kind in SeriesKind if kind <= SeriesKind.WORK and not kind.is_rate and kind is not SeriesKind.FIRST_CHUNK
]
#: Stretches that a sentence names, and the share of the steps of one that another has, too, which it explains.
_NAMED, _SAME = 4, 0.6
#: First step, which imports, compiles and warms up.
_WARM_UP = 1
#: A cost that comes and goes is said beside a level that rose where it is so many times as large.
_EXPLAINED = 1.5


@dataclass(frozen=True, slots=True)
class _Recurring:
    """A series with its values at the steps ``x``, and the share of a time that it takes beyond the usual."""

    series: StepSeries
    x: list[int]
    values: list[float]
    recurrence: Recurrence
    share: float
    of: str
    #: The stretches have another level since one of them.
    rise: Rise | None = None

    @property
    def steps(self) -> set[int]:
        """Steps in which it is high."""
        return {self.x[at] for first, last in self.recurrence.stretches for at in range(first, last + 1)}


def findings(collected: Collected, slower: list[LevelChange]) -> list[Finding]:
    """Return one finding for each cost that comes and goes; what contains another of the same steps is its symptom.

    ``slower`` is what another level explains.
    """
    roots: list[tuple[_Recurring, Finding]] = []
    several = len([rank for rank in collected.steps.ranks if rank is not None]) > 1
    left = _unexplained(_recurrences(collected), slower, collected)
    for one in sorted(left, key=lambda one: (one.series.kind, -one.share)):
        finding = _finding(one, several=several, is_guessed=collected.steps.guessed)
        if reason := _busy(one, collected) or work.reason_in(one.series, one.steps, collected):
            finding.severity = Severity.NOTICE
            finding.evidence.append(reason)
        cause = next((root for other, root in roots if _is_same(other, one)), None)
        if cause is None:
            roots.append((one, finding))
        else:
            cause.symptoms.append(finding)
    return sorted((finding for _, finding in roots), key=lambda finding: -(finding.cost or 0.0))


def _unexplained(found: Iterable[_Recurring], slower: list[LevelChange], collected: Collected) -> Iterator[_Recurring]:
    """Yield what no level explains: of the same series, or of a phase that some of the steps have."""
    costs = {(change.kind, change.name, change.place, rank): change.share for change in slower for rank in change.ranks}
    of_some_steps = [
        {step for step in series.line.x if change.onset <= step <= change.last}
        for change in slower
        for series in all_series(collected)
        if change.found_in is not None and 2 * change.found_in[0] <= change.found_in[1] + 1
        if (series.kind, series.name) == (change.kind, change.name) and series.rank in change.ranks
    ]
    for one in found:
        series, steps = one.series, one.steps
        own = costs.get(_key(series), 0.0)
        if one.share > _EXPLAINED * own and not any(len(steps & of) >= _SAME * len(steps) for of in of_some_steps):
            yield one


def _is_same(one: _Recurring, other: _Recurring) -> bool:
    steps, others = one.steps, other.steps
    return len(steps & others) >= _SAME * min(len(steps), len(others))


def steps_of(series: StepSeries, collected: Collected) -> set[int]:
    """Return the steps in which a cost comes and goes: that of the series, or, for whole steps, of anything in them."""
    found = _recurrences(collected)
    if series.kind < SeriesKind.WORK:
        found = [one for one in found if _key(one.series) == _key(series)]
    ranks = (None, series.rank)
    return {step for one in found if series.rank is None or one.series.rank in ranks for step in one.steps}


def _key(series: StepSeries) -> tuple[SeriesKind, str, str, int | None]:
    return series.kind, series.name, series.place, series.rank


@asked_once
def _recurrences(collected: Collected) -> list[_Recurring]:
    return list(_of_run(collected))


def _of_run(collected: Collected) -> Iterator[_Recurring]:
    by_rank = collected.steps.by_rank
    for series in all_series(collected):
        if series.kind not in _KINDS or not series.line.by_step or series.name in _ON_PURPOSE or not series.values:
            continue
        spent, of = _spent(series, collected)
        if not spent or series.seconds < _SHARE * spent:
            continue
        x, values = list(series.line.x), series.values
        if series.rank in by_rank and (series.kind is SeriesKind.PAUSE or series.name in _OF_EACH_STEP):
            known = dict(zip(x, values, strict=True))
            x = sorted({*by_rank[series.rank].x, *x})
            values = [known.get(step, 0.0) for step in x]
        recurrence = detectors.recurrence(x[_WARM_UP:], values[_WARM_UP:])
        if recurrence is None or _is_wait(series, x[_WARM_UP:], recurrence, collected):
            continue
        extra = recurrence.extra * series.seconds / max(sum(series.values), 1e-9)
        if extra >= max(_SECONDS, _SHARE * spent):
            yield _risen(_Recurring(series, x[_WARM_UP:], values[_WARM_UP:], recurrence, min(extra / spent, 1.0), of))


def _risen(one: _Recurring) -> _Recurring:
    """Return it with the rise of its high values, if any: a cost that recurs by design is wrong only if it grew."""
    highs = [max(one.values[first : last + 1]) for first, last in one.recurrence.stretches]
    found = levels.rise(highs, factor=thresholds.SLOWER)
    if found is None:
        return one
    more = sum(high - found.before for high in highs[found.first : found.last + 1])
    share = one.share * min(more / max(one.recurrence.extra, 1e-9), 1.0)
    return replace(one, rise=found, share=share) if share >= _SHARE else one


def _is_wait(series: StepSeries, x: list[int], recurrence: Recurrence, collected: Collected) -> bool:
    """Return whether the rank only waits for another one in these steps."""
    waiting = collected.steps.waiting.get(series.rank)
    if waiting is None or series.kind is not SeriesKind.PHASE:
        return False
    high = {x[at] for first, last in recurrence.stretches for at in range(first, last + 1)}
    return 2 * _more(waiting, high) >= recurrence.extra


def _more(line: Line, steps: set[int]) -> float:
    """Return by how much the values of some steps are above those of the others, in all."""
    values = dict(zip(line.x, line.means, strict=True))
    others = [value for step, value in values.items() if step not in steps]
    return sum(values[step] - median(others) for step in steps if step in values) if others else 0.0


def _busy(one: _Recurring, collected: Collected) -> str:
    """Return that the steps were longer as others had the CPU, in a sentence; ``""`` where they were not."""
    steps = collected.steps
    longer = max((_more(line, one.steps) for line in steps.by_rank.values()), default=0.0)
    waited = max((_more(line, one.steps) for line in steps.cpu_waits.values()), default=0.0)
    if longer <= 0 or waited < thresholds.OF_BUSY * longer:
        return ""
    return f"The machine was busy: in these steps their thread waited {human.duration(waited)} more for a CPU."


def _spent(series: StepSeries, collected: Collected) -> tuple[float, str]:
    """Return the seconds that a share is of, and what these are: the steps, or the rollouts for what is in these."""
    kind = TOOL if series.kind is SeriesKind.TOOL else MODEL if series.kind.is_of_model else ""
    is_inside = (kind, series.name, series.place) in in_rollouts(collected)
    if is_inside or series.kind is SeriesKind.FIRST_CALL:
        return sum(line.total for line in rollouts.over_steps(collected, "seconds").values()), "the rollouts' time"
    by_rank = collected.steps.by_rank
    lines = [by_rank[series.rank]] if series.rank in by_rank else list(by_rank.values())
    if series.name in BETWEEN_STEPS:
        gaps = collected.steps.gaps
        lines += [gaps[series.rank]] if series.rank in gaps else list(gaps.values())
    return _of_recorded(collected) * sum(line.total for line in lines), "the steps' time"


@asked_once
def _of_recorded(collected: Collected) -> float:
    """Return how many times the length of the recorded steps all of them have: of short ones not all have spans."""
    return whole_seconds(collected.steps, collected.totals) / max(collected.steps.lengths.cell.total, 1e-9)


def _finding(one: _Recurring, *, several: bool, is_guessed: bool) -> Finding:
    """Return the finding; what lies between guessed steps is what the program does there."""
    series, recurrence = one.series, one.recurrence
    code, section, chart = change_sentences.PLACES[series.kind]
    where = f" on rank {series.rank}" if several and series.rank is not None else ""
    rise = one.rise
    first = one.x[recurrence.stretches[rise.first if rise is not None else 0][0]]
    if recurrence.period is not None:
        when = f"in every {_ordinal(recurrence.period)} step, {'since' if rise else 'from'} step {human.number(first)}"
    else:
        when = f"in steps {_stretches(one)}"
    high, before = (recurrence.high, "") if rise is None else (rise.after, f"{human.duration(rise.before)} before; ")
    text = (
        f"{change_sentences.noun(series.kind, series.name, series.place)}{where} takes {human.duration(high)} {when}"
        f" ({before}{human.duration(recurrence.usual)} in the others): {human.percent(one.share)} of {one.of}."
    )
    is_grave = one.share >= thresholds.CRITICAL_SHARE and (recurrence.period is not None or rise is not None)
    severity = Severity.CRITICAL if is_grave else Severity.WARNING
    if rise is None and _is_by_design(one, is_guessed=is_guessed):
        severity = Severity.NOTICE
    return Finding(
        recurring_code(code),
        severity,
        text,
        section,
        subject=change_sentences.about(series.kind, series.name),
        place=series.place,
        chart=chart,
        cost=one.share,
        onset=first,
        look_at=change_sentences.look_at(series.kind, series.name),
        points=around(first, one.x, one.values, human.duration),
        ranks=[] if series.rank is None else [series.rank],
    )


def _is_by_design(one: _Recurring, *, is_guessed: bool) -> bool:
    """Return whether the program may be made so: it samples for several steps at once, or some batches are larger."""
    series, recurrence = one.series, one.recurrence
    if series.kind not in (SeriesKind.PHASE, SeriesKind.WORK) or series.name == Phase.DATA_WAIT:
        return False
    is_of_each = series.kind is SeriesKind.WORK or series.name in _OF_EACH_STEP
    if not is_guessed and (series.kind is SeriesKind.WORK or series.name == UNCOVERED):
        return False
    if recurrence.period is None and not (is_guessed and is_of_each):
        return recurrence.is_chance and not is_of_each
    # By design it recurs from the start, at about the same distance. Of short steps only some are recorded.
    steps = [one.x[first] for first, _ in recurrence.stretches]
    return steps[0] - one.x[0] <= median(after - before for before, after in pairwise(steps)) + _WARM_UP


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return {2: "second", 3: "third"}.get(number, f"{number}{ending}")


def _stretches(one: _Recurring) -> str:
    parts = [
        str(one.x[first]) if first == last else f"{one.x[first]} to {one.x[last]}"
        for first, last in one.recurrence.stretches
    ]
    if len(parts) > _NAMED:
        return f"{', '.join(parts[:_NAMED])} and {len(parts) - _NAMED} more stretches"
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
