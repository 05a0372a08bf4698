"""The rank that the others wait for: of the whole run, of its last steps, and as it was told while the job ran."""

from __future__ import annotations

from bisect import bisect_right
from math import exp, inf, lgamma, log
from operator import itemgetter
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import Check, Finding, Severity, unexplained
from otel_rl.report.core.over_time import merged
from otel_rl.report.core.steps import UNCOVERED
from otel_rl.report.subjects.ranks.aggregate import LateRanks
from otel_rl.report.subjects.rewards.aggregate import Rewards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.ranks.stragglers.run import Cost, RunComparison
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.core.over_time import Line
    from otel_rl.report.core.statistics import BinnedSeries, Cell
    from otel_rl.report.subjects.ranks.aggregate import LateRank

_CODE, _SECTION, _CHART = "late_rank", "ranks", "own-work"
_FEWEST_STEPS = 3


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return one finding for each rank that is, or was, late, and of which no change tells the reason."""
    return unexplained(_late_ranks(collected), known["changes"])


def checks(collected: Collected) -> list[Check]:
    """Return whether the ranks could be compared."""
    codes = ("late_rank", "slower_rank", "slower_collectives", "hang")
    return [Check("a rank that is late in its steps", _unobserved(collected), codes)]


def _unobserved(collected: Collected) -> str:
    ranks = [rank for rank in collected.steps.ranks if rank is not None]
    if not collected.steps.ranks:
        return sentences.NO_STEP
    if len(ranks) < 2:  # noqa: PLR2004 - nothing to compare
        return "it takes two ranks, and the steps are of one"
    return "" if collected.steps.seen.count else "the collectives of the steps were not seen"


def _late_ranks(collected: Collected) -> list[Finding]:
    """Return one finding for each rank that is, or was, late."""
    found = _in_records(collected)
    traced = _TracedSteps(collected.steps.by_rank)
    for rank, stretches in _told(collected).items():
        told = _of_told(collected, traced, stretches)
        same = next((one for one in found if one.ranks == [rank]), None)
        if same is not None:
            same.onset = told.onset
            same.evidence.append(told.text)
        elif _is_notable(traced, stretches, told.cost):
            found.append(told)
    return found


# -- as the job told -----------------------------------------------------------------------------------------------


def _told(collected: Collected) -> dict[int, list[LateRank]]:
    """Rank -> when it was late, in the steps that the page shows."""
    found: dict[int, list[LateRank]] = {}
    for one in collected[LateRanks].items():
        if _is_shown(one, collected):
            found.setdefault(one.rank, []).append(one)
    return found


def _is_shown(one: LateRank, collected: Collected) -> bool:
    if not collected.steps.ranks:
        # No step was traced; the page is on the latest attempt.
        return one.attempt not in collected.superseded
    shown = collected.loops.shown
    # Where the numbers began again in a process, the event does not say whether it is of the steps before that.
    return (one.attempt, one.loop) == (shown.attempt, shown.loop) and not shown.again


def _of_told(collected: Collected, traced: _TracedSteps, stretches: list[LateRank]) -> Finding:
    worst, cost = max(stretches, key=lambda one: one.share), _share_of_steps(_steps(collected), traced, stretches)
    lost = f"{'up to ' if len(stretches) > 1 else ''}{human.duration(worst.lost)} ({human.percent(worst.share)})"
    waited = f", who waited in {worst.operation}" if worst.operation else ""
    where = f"in phase {worst.phase}" if worst.phase else "outside of all phases"
    text = (
        f"Rank {worst.rank} was late {_when(stretches)}, as was told while the job ran: it worked longer {where}."
        f" Without it each step would have been {lost} shorter for the others{waited}."
    )
    return Finding(
        _CODE, _severity(cost), text, _SECTION, chart=_CHART, cost=cost, onset=stretches[0].since, ranks=[worst.rank],
        look_at=[_look_at(worst.rank)],
    )  # fmt: skip


def _severity(cost: float | None) -> Severity:
    """Where rollouts are of uneven length, one rank is late in eight steps in a row by chance too: that is no habit."""
    if cost is None:
        return Severity.WARNING
    if cost >= thresholds.CRITICAL_SHARE:
        return Severity.CRITICAL
    return Severity.WARNING if cost >= thresholds.NOTABLE_SHARE else Severity.NOTICE


def _when(stretches: list[LateRank]) -> str:
    first, ends = stretches[0].since, [one.until for one in stretches if one.until is not None]
    when = f"since step {first}" if len(ends) < len(stretches) else f"from step {first} to {max(ends)}"
    number = sum(one.since == since for one, since, _ in _apart(stretches))
    return when if number == 1 else f"{when}, in {number} stretches"


def _apart(stretches: list[LateRank]) -> Iterator[tuple[LateRank, int, float]]:
    """Each with its first and last iteration; what several processes have told of comes once."""
    ends: dict[tuple[tuple[int, ...], str], float] = {}
    for one in stretches:
        loop = (one.attempt, one.loop)
        told = ends.get(loop, -inf)
        if one.last > told:
            ends[loop] = one.last
            yield one, int(max(one.since, told + 1)), one.last


def _share_of_steps(steps: float, traced: _TracedSteps, stretches: list[LateRank]) -> float | None:
    """Share of all steps' time that the others lost; None where the steps are not known."""
    late = [(one.share, traced.count(since, until)) for one, since, until in _apart(stretches)]
    if not any(number for _, number in late):
        return None
    return float(min(sum(share * number for share, number in late) / steps, 1.0))


def _is_notable(traced: _TracedSteps, stretches: list[LateRank], cost: float | None) -> bool:
    """What lasts is said; of what is over, that which cost something."""
    if cost is None or cost >= thresholds.NOTABLE_SHARE or any(one.until is None for one in stretches):
        return True
    lost = sum(one.lost * traced.count(since, until) for one, since, until in _apart(stretches))
    return lost >= thresholds.LOST_SECONDS


class _TracedSteps:
    """How many steps a rank took from one iteration to another: there are loops whose iterations count samples."""

    def __init__(self, series: BinnedSeries) -> None:
        self._width, self._lines = series.width, list(series.lines().values())

    def count(self, since: int, until: float) -> float:
        """Of the rank with most of them."""
        return max((self._of(line, since, until) for line in self._lines), default=0)

    def _of(self, line: list[tuple[int, Cell]], since: int, until: float) -> float:
        begin = bisect_right(line, since - self._width, key=itemgetter(0))
        end = bisect_right(line, until, key=itemgetter(0))
        return sum(self._part(first, cell.count, since, until) for first, cell in line[begin:end])

    def _part(self, first: int, count: int, since: int, until: float) -> float:
        """Of the steps in a bin, those in the stretch: at least the one with which it begins or ends."""
        inside = min(first + self._width - 1, until) - max(first, since) + 1
        return max(count * inside / self._width, 1.0)


def _steps(collected: Collected) -> float:
    return max((totals.steps.count for totals in collected.steps.ranks.values()), default=0)


# -- from the records ----------------------------------------------------------------------------------------------


def _in_records(collected: Collected) -> list[Finding]:
    """The rank that is late over the whole run, and what the last steps would have been without it."""
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
    more, length = _typical(collected, slowest)
    share = more / length if length else 0.0
    is_often = _is_often(ranks[slowest].slowest, compared, len(ranks))
    if not is_often or share < thresholds.NOTABLE_SHARE or more < thresholds.NOTABLE_SECONDS:
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


def _is_often(late: int, steps: int, ranks: int) -> bool:
    """True where a rank is the late one in most steps, and more often than chance makes one."""
    return _chance(late, steps, ranks) <= thresholds.LATE_BY_CHANCE


def _chance(late: int, steps: int, ranks: int) -> float:
    """How likely one rank is the late one so often by accident (a binomial test); 1 below most steps."""
    if late < thresholds.LATE_STEPS * steps:
        return 1.0
    share = 1 / max(ranks, 2)
    orders = [lgamma(steps + 1) - lgamma(number + 1) - lgamma(steps - number + 1) for number in range(late, steps + 1)]
    logarithms = [
        order + number * log(share) + (steps - number) * log(1 - share) for number, order in enumerate(orders, late)
    ]
    return sum(map(exp, logarithms))


def _typical(collected: Collected, rank: int) -> tuple[float, float]:
    """How much longer a rank works than the others, and the length of a step: medians, for a checkpoint is no habit."""
    by_bin: dict[int, dict[int, float]] = {}
    for one, line in collected.steps.own.lines().items():
        if one is not None:
            for first, cell in line:
                by_bin.setdefault(first, {})[one] = cell.mean
    met = [cells for cells in by_bin.values() if rank in cells and len(cells) > 1]
    more = [cells[rank] - fmean(value for one, value in cells.items() if one != rank) for cells in met]
    return (median(more) if more else 0.0), collected.steps.lengths.quantile(0.5)


def _place(collected: Collected, rank: int, more: float) -> str:
    """The reward function, else the phase, in which a rank works longer than the others."""
    functions = _per_step(merged(collected[Rewards].functions.lines(), lambda one: one), collected)
    parts = {key: _sum(line) for key, line in collected.steps.parts.lines().items()}
    for what, seconds in (("reward function", functions), ("phase", parts)):
        differences = _differences(seconds, rank, collected)
        if not differences:
            continue
        name, (own, others) = max(differences.items(), key=lambda one: one[1][0] - one[1][1])
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
    """Name -> seconds of a step on this rank, and on the others."""
    counts = {one: totals.steps.count for one, totals in collected.steps.ranks.items() if one is not None}
    found = {}
    for name in {name for name, _ in seconds}:
        of_rank = {one: seconds.get((name, one), 0.0) / count for one, count in counts.items()}
        found[name] = of_rank[rank], fmean(value for one, value in of_rank.items() if one != rank)
    return found


def _of_late(collected: Collected, *, alone: bool = True) -> Finding | None:
    """The rank without which the last steps would have been shorter, from the flight recorders."""
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
    if alone and ranks * _chance(cost.steps, len(comparison.steps), ranks) > thresholds.LATE_BY_CHANCE:
        return None
    text = _without(comparison)
    return Finding(
        _CODE, Severity.WARNING, text, _SECTION, chart=_CHART, cost=_share_of_run(cost, collected), ranks=[cost.rank]
    )


def _share_of_run(cost: Cost, collected: Collected) -> float:
    """The rings know the last steps only: the share that these are of the run is what was surely lost."""
    steps = _steps(collected)
    return float(cost.share * min(cost.steps / steps, 1.0)) if steps else float(cost.share)


def _without(comparison: RunComparison) -> str:
    cost = comparison.costs()[0]
    phase = (
        f", which works longer in phase {cost.phase}" if cost.phase else ", which works longer outside of all phases"
    )
    last = len(comparison.steps)
    steps = f"the last {last} steps" if cost.steps == last else f"{cost.steps} of the last {last} steps"
    return (
        f"Without rank {cost.rank}{phase}, {steps} would have been {human.duration(cost.lost)}"
        f" ({human.percent(cost.share)}) shorter each for the others, who waited in {cost.operation}."
    )
