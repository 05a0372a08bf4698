"""The rank that the others wait for: of the whole run, of its last steps, and as the job reported it."""

from __future__ import annotations

from bisect import bisect_right
from math import inf
from operator import itemgetter
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity, unexplained
from otel_rl.report.core.over_time import merged
from otel_rl.report.core.steps import UNCOVERED, counted
from otel_rl.report.subjects import workload
from otel_rl.report.subjects.ranks import chance, last_rank_finding
from otel_rl.report.subjects.ranks.aggregate import LateRanks
from otel_rl.report.subjects.rewards.aggregate import Rewards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.ranks.stragglers.run import Cost, RunComparison
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.core.over_time import Line
    from otel_rl.report.core.statistics import BinnedSeries, Cell
    from otel_rl.report.core.steps import Steps
    from otel_rl.report.subjects.ranks.aggregate import LateRank

_CODE, _SECTION, _CHART = "late_rank", "ranks", "own-work"
_FEWEST_STEPS = 3
#: Of so many steps the one with most work of its own is left out of the mean: a first step, a checkpoint.
_LARGEST = 20


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return one finding for each rank that is, or was, late, and of which no change tells the reason."""
    return unexplained(last_rank_finding.add_to(_late_ranks(collected), collected), known["changes"])


def checks(collected: Collected) -> list[Check]:
    """Return whether the ranks could be compared."""
    what, codes = "late ranks", ("late_rank", "slower_rank", "slower_collectives", "hang")
    program = workload.of(collected)
    if program.trains and program.ranks < 2:  # noqa: PLR2004 - nothing to compare
        return [Check.not_applicable(what, "the job has one rank", codes)]
    return [last_rank_finding.check(collected, what, codes) or _by_hosts(collected, what, codes)]


def _by_hosts(collected: Collected, what: str, codes: tuple[str, ...]) -> Check:
    program, steps = workload.of(collected), collected.steps
    ranks = len([rank for rank in steps.ranks if rank is not None])
    if not program.trains or not ranks:
        make = (
            Check.not_recorded if program.ranks > 1 and (program.trains or program.may_train) else Check.not_applicable
        )
        return make(what, program.without_steps or sentences.NO_STEP, codes)
    if ranks < 2:  # noqa: PLR2004 - nothing to compare
        return Check.not_recorded(what, f"the steps are of one rank of {program.ranks}", codes)
    if not steps.seen.count:
        return Check.not_recorded(what, "the collectives of its steps are not seen", codes)
    if not any(totals.collectives.total for totals in steps.ranks.values()):
        return Check.not_applicable(what, "no rank waits for another: there are no collectives", codes)
    number = steps.count_slowest() * steps.own.width
    return Check.of(what, number, _fewest_steps(ranks), "step", codes, workload.extent(collected))


def _fewest_steps(ranks: int) -> int:
    """Return the steps of which one rank has to be the late one in all, for chance not to explain it."""
    return next(steps for steps in range(_FEWEST_STEPS, 100) if chance.is_often(steps, steps, ranks))


def _late_ranks(collected: Collected) -> list[Finding]:
    """Return one finding for each rank that is, or was, late."""
    late = _in_records(collected)
    traced = _TracedSteps(collected.steps.by_rank)
    for rank, stretches in _reported(collected).items():
        same = next((finding for finding in late if finding.ranks == [rank]), None)
        is_earlier = same is not None and _is_late_before(stretches[0].since, rank, collected.steps)
        reported = _reported_finding(collected, traced, stretches, is_earlier=is_earlier)
        if same is not None:
            same.onset = None if is_earlier else reported.onset
            same.evidence.append(reported.text)
        elif _is_notable(traced, stretches, reported.cost):
            late.append(reported)
    return late


# -- as the job reported it ------------------------------------------------------------------------------------------


def _reported(collected: Collected) -> dict[int, list[LateRank]]:
    """Return rank -> when it was late, in the steps that the page shows."""
    by_rank: dict[int, list[LateRank]] = {}
    for stretch in collected[LateRanks].items():
        if _is_shown(stretch, collected):
            by_rank.setdefault(stretch.rank, []).append(stretch)
    return by_rank


def _is_late_before(step: int, rank: int, steps: Steps) -> bool:
    """Return whether the rank was the late one before ``step`` already: the job compares some of the steps only."""
    before = [cells for first, cells in _by_bin(steps.own).items() if first < step and len(cells) > 1]
    late = sum(max(cells, key=cells.__getitem__) == rank for cells in before)
    return bool(before) and late >= thresholds.LATE_STEPS * len(before)


def _is_shown(stretch: LateRank, collected: Collected) -> bool:
    if not collected.steps.ranks:
        # No step was traced; the page is on the latest attempt.
        return stretch.attempt not in collected.superseded
    shown = collected.loops.shown
    # Where the numbers began again in a process, the event does not say whether it is of the steps before that.
    return (stretch.attempt, stretch.loop) == (shown.attempt, shown.loop) and not shown.restarts


def _reported_finding(
    collected: Collected, traced: _TracedSteps, stretches: list[LateRank], *, is_earlier: bool
) -> Finding:
    worst, cost = (
        max(stretches, key=lambda stretch: stretch.share),
        _share_of_steps(_steps(collected), traced, stretches),
    )
    lost = f"{'up to ' if len(stretches) > 1 else ''}{human.duration(worst.lost)} ({human.percent(worst.share)})"
    waited = f", who waited in {worst.operation}" if worst.operation else ""
    where = _where(worst.phase, collected.steps)
    longer = f": it worked longer {where}" if where else ""
    steps = "in the compared steps " if is_earlier else ""
    text = (
        f"Rank {worst.rank} was late {steps}{_when(stretches)}, as was told while the job ran{longer}."
        f" Without it each step would have been {lost} shorter for the others{waited}."
    )
    return Finding(
        _CODE, _severity(cost), text, _SECTION, chart=_CHART, cost=cost, onset=stretches[0].since, ranks=[worst.rank],
        look_at=[_look_at(worst.rank)],
    )  # fmt: skip


def _where(phase: str, steps: Steps) -> str:
    """Return where a rank worked longer, by a flight recorder: that knows few phases of steps that are guessed."""
    if phase:
        return f"in phase {phase}"
    return "" if steps.guessed else "outside of all phases"


def _severity(cost: float | None) -> Severity:
    """Return the severity: by chance alone one rank is late in eight steps in a row where rollouts are uneven."""
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


def _share_of_steps(steps: float, traced: _TracedSteps, stretches: list[LateRank]) -> float | None:
    """Return the share of all steps' time that the others lost; None where the steps are not known."""
    late = [(stretch.share, traced.count(since, until)) for stretch, since, until in _apart(stretches)]
    if not any(number for _, number in late):
        return None
    return float(min(sum(share * number for share, number in late) / steps, 1.0))


def _is_notable(traced: _TracedSteps, stretches: list[LateRank], cost: float | None) -> bool:
    """Return whether it lasts, or is over and has cost something."""
    if cost is None or cost >= thresholds.NOTABLE_SHARE or any(stretch.until is None for stretch in stretches):
        return True
    lost = sum(stretch.lost * traced.count(since, until) for stretch, since, until in _apart(stretches))
    return lost >= thresholds.LOST_SECONDS


class _TracedSteps:
    """How many steps a rank took from one iteration to another: there are loops whose iterations count samples."""

    def __init__(self, series: BinnedSeries) -> None:
        self._width, self._lines = series.width, list(series.lines().values())

    def count(self, since: int, until: float) -> float:
        """Return the steps of the rank with most of them."""
        return max((self._of(line, since, until) for line in self._lines), default=0)

    def _of(self, line: list[tuple[int, Cell]], since: int, until: float) -> float:
        begin = bisect_right(line, since - self._width, key=itemgetter(0))
        end = bisect_right(line, until, key=itemgetter(0))
        return sum(self._part(first, cell.count, since, until) for first, cell in line[begin:end])

    def _part(self, first: int, count: int, since: int, until: float) -> float:
        """Return the steps of a bin that are in the stretch: at least the one with which it begins or ends."""
        inside = min(first + self._width - 1, until) - max(first, since) + 1
        return max(count * inside / self._width, 1.0)


def _steps(collected: Collected) -> float:
    """Return the steps of the rank with most of them."""
    traced = max((totals.steps.count for totals in collected.steps.ranks.values()), default=0)
    return max(traced, counted(collected.steps, collected.totals)) if collected.steps.guessed else traced


# -- from the records ----------------------------------------------------------------------------------------------


def _in_records(collected: Collected) -> list[Finding]:
    """Return the rank that is late over the whole run, with the last steps as they were without it."""
    over_all = _most_work(collected)
    last = _of_late(collected, alone=over_all is None)
    if over_all is None:
        return [] if last is None else [last]
    if last is not None:
        over_all.evidence.append(last.text)
    return [over_all]


def _most_work(collected: Collected) -> Finding | None:
    steps = collected.steps
    compared = steps.count_slowest()
    ranks = {rank: totals for rank, totals in steps.ranks.items() if rank is not None}
    if compared < _FEWEST_STEPS:
        return None
    slowest = max(ranks, key=lambda rank: ranks[rank].slowest)
    typical, more, share = _longer(collected, slowest)
    is_often = chance.is_often(ranks[slowest].slowest, compared, len(ranks))
    if not is_often or share < thresholds.NOTABLE_SHARE or min(typical, more) < thresholds.NOTABLE_SECONDS:
        return None
    text = (
        f"Rank {slowest} makes the others wait: most work of its own in {ranks[slowest].slowest} of {compared} steps, "
        f"{human.duration(more)} more per step ({human.percent(share)} of a step){_place(collected, slowest, more)}."
    )
    severity = Severity.CRITICAL if share >= thresholds.CRITICAL_SHARE else Severity.WARNING
    return Finding(
        _CODE, severity, text, _SECTION, chart=_CHART, cost=share, ranks=[slowest], look_at=[_look_at(slowest)]
    )


def _look_at(rank: int) -> str:
    return f"Host, device and data of rank {rank}, against those of the others."


class _Longer(NamedTuple):
    """How much longer a rank works than the others: median, and mean without the largest few (checkpoints)."""

    typical: float
    mean: float
    #: The mean as a share of the same steps' length.
    share: float


def _longer(collected: Collected, rank: int) -> _Longer:
    lengths = _by_bin(collected.steps.by_rank)
    more = [
        (cells[rank] - fmean(value for other, value in cells.items() if other != rank), fmean(lengths[first].values()))
        for first, cells in _by_bin(collected.steps.own).items()
        if rank in cells and len(cells) > 1 and first in lengths
    ]
    if not more:
        return _Longer(0.0, 0.0, 0.0)
    usual = sorted(more)[: -max(len(more) // _LARGEST, 1)] or more
    # Where another rank works longer, this one costs nothing.
    lost, length = sum(max(by, 0.0) for by, _ in usual), sum(length for _, length in usual)
    return _Longer(median(by for by, _ in more), lost / len(usual), min(lost / length, 1.0) if length else 0.0)


def _by_bin(series: BinnedSeries) -> dict[int, dict[int, float]]:
    """Return first step of a bin -> rank -> mean."""
    by_bin: dict[int, dict[int, float]] = {}
    for rank, line in series.lines().items():
        if rank is not None:
            for first, cell in line:
                by_bin.setdefault(first, {})[rank] = cell.mean
    return by_bin


def _place(collected: Collected, rank: int, more: float) -> str:
    """Return the reward function, else the phase, in which a rank works longer than the others."""
    functions = _per_step(merged(collected[Rewards].functions.lines(), lambda item: item), collected)
    parts = {key: _sum(line) for key, line in collected.steps.parts.lines().items()}
    for what, seconds in (("reward function", functions), ("phase", parts)):
        differences = _differences(seconds, rank, collected)
        if not differences:
            continue
        name, (own, others) = max(differences.items(), key=lambda item: item[1][0] - item[1][1])
        if own - others >= 0.5 * more:
            where = "outside of all phases" if name == UNCOVERED else f"in {what} {name}"
            return f", {where} ({human.duration(own)} a step, {human.duration(others)} on the others)"
    return ""


def _sum(line: list[tuple[int, Cell]]) -> float:
    return sum(cell.total for _, cell in line)


def _per_step(lines: dict[Any, Line], collected: Collected) -> dict[Any, float]:
    return {
        key: sum(cell.total for cell in line.cells) for key, line in lines.items() if key[1] in collected.steps.ranks
    }


def _differences(seconds: dict[Any, float], rank: int, collected: Collected) -> dict[str, tuple[float, float]]:
    """Return name -> seconds of a step on this rank, and on the others."""
    counts = {other: totals.steps.count for other, totals in collected.steps.ranks.items() if other is not None}
    differences = {}
    for name in {name for name, _ in seconds}:
        of_rank = {other: seconds.get((name, other), 0.0) / count for other, count in counts.items()}
        differences[name] = of_rank[rank], fmean(value for other, value in of_rank.items() if other != rank)
    return differences


def _of_late(collected: Collected, *, alone: bool = True) -> Finding | None:
    """Return the rank without which the last steps would have been shorter, from the flight recorders."""
    comparison = collected.rings.comparison
    costs = comparison.costs() if comparison is not None else []
    if comparison is None or not costs or len(comparison.steps) < _FEWEST_STEPS:
        return None
    cost = costs[0]
    # Of all steps, those in which another rank was the late one too: one long step is no habit.
    shares = [
        step.lost_share if step.straggler and step.straggler.rank == cost.rank else 0.0 for step in comparison.steps
    ]
    is_notable = median(shares) >= thresholds.NOTABLE_SHARE and cost.lost >= thresholds.NOTABLE_SECONDS
    if not is_notable or cost.steps < thresholds.LATE_STEPS * len(comparison.steps):
        return None
    # Beside the finding on the whole run it says more of the same. Alone, the rank has been picked from all of them.
    ranks = max(len(collected.steps.ranks), 2)
    if alone and ranks * chance.chance(cost.steps, len(comparison.steps), ranks) > thresholds.LATE_BY_CHANCE:
        return None
    text = _without(comparison, collected.steps)
    return Finding(
        _CODE, Severity.WARNING, text, _SECTION, chart=_CHART, cost=_share_of_run(cost, collected), ranks=[cost.rank]
    )


def _share_of_run(cost: Cost, collected: Collected) -> float:
    """Return the share of the run that was surely lost: the rings know the last steps only."""
    steps = _steps(collected)
    return float(cost.share * min(cost.steps / steps, 1.0)) if steps else float(cost.share)


def _without(comparison: RunComparison, traced: Steps) -> str:
    cost = comparison.costs()[0]
    where = _where(cost.phase, traced)
    phase = f", which works longer {where}" if where else ""
    last = len(comparison.steps)
    steps = f"the last {last} steps" if cost.steps == last else f"{cost.steps} of the last {last} steps"
    return (
        f"Without rank {cost.rank}{phase}, {steps} would have been {human.duration(cost.lost)}"
        f" ({human.percent(cost.share)}) shorter each for the others, who waited in {cost.operation}."
    )
