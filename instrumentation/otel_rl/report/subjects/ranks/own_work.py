"""The ranks that work longer than the others over the whole run, from the spans of their steps."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from otel_rl.ranks.stragglers.comparison import LATE, LateTogether, StepComparison, share_of
from otel_rl.ranks.stragglers.lasting import lateness, together
from otel_rl.ranks.stragglers.meetings import Place
from otel_rl.ranks.stragglers.timeline import StepKey
from otel_rl.report.core import human, thresholds
from otel_rl.report.core.finding import Finding, Severity
from otel_rl.report.core.steps import UNCOVERED
from otel_rl.report.subjects.calls.lines import of_rewards
from otel_rl.report.subjects.ranks import sentences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_rl.ranks.stragglers.lasting import Lateness
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.lines import Line
    from otel_rl.report.core.steps import Steps

#: Fewest late steps.
FEWEST_STEPS = 3
#: Of so many steps the one that lost most is left out where it lost many times as much as usual: a first step, a
#: checkpoint.
_LARGEST, _UNUSUAL = 20, 3.0
_PLACE = Place("", "")


def late_ranks(steps: Steps) -> list[Lateness]:
    """Return the ranks that had more work of their own than the others again and again, the dearest first."""
    found = [one for one in lateness(_compared(steps), LATE) if len(one.late) >= FEWEST_STEPS]
    # Not times the number of ranks: five steps of two ranks have to be enough.
    return together([one for one in found if one.chance / one.ranks * one.starts <= thresholds.LATE_BY_CHANCE])


def findings(collected: Collected, late: Sequence[Lateness], places: Mapping[int, str]) -> list[Finding]:
    """Return one finding for each of these ranks that costs something.

    ``places`` says where a rank worked longer, for phases of which the spans cannot tell work from waiting.
    """
    compared = _compared(collected.steps)
    costs = {one.rank: _cost(one, compared) for one in late}
    dear = [one for one in late if _is_dear(one, costs[one.rank])]
    return [_finding(collected, one, costs[one.rank], compared, dear, places.get(one.rank, "")) for one in dear]


def _is_dear(one: Lateness, cost: float) -> bool:
    lost, _ = _usually_lost(one)
    return cost >= thresholds.NOTABLE_SHARE and lost >= thresholds.NOTABLE_SECONDS


def _finding(
    collected: Collected,
    one: Lateness,
    cost: float,
    compared: list[StepComparison],
    dear: Sequence[Lateness],
    place: str,
) -> Finding:
    lost, share = _usually_lost(one)
    at_once = [other for other in dear if other.overlaps(one)]
    beside = {other.rank for other in at_once} - {one.rank}
    everything = max(_usually_lost(other)[0] for other in at_once)
    first = one.steps[0].key.iteration
    # The first step warms up: that another rank was longer in it is no begin.
    is_from_begin, last = first <= compared[0].key.iteration + 1, one.steps[-1].key.iteration
    when = "" if is_from_begin else f" since step {first}"
    if last != compared[-1].key.iteration:
        when = f" from step {first} to {last}"
    text = (
        f"Rank {one.rank} makes the others wait: {'more' if beside else 'most'} work of its own"
        f" in {len(one.late)} of {human.amount(len(one.steps), 'step')}"
        f"{when}, {human.duration(lost)} more per step"
        f" ({human.percent(share)} of a step)"
        f"{_place(collected, one, lost) or (f', {place}' if place else '')}."
        f"{sentences.mending(one.rank, one.alone, everything, beside)}"
    )
    severity = Severity.CRITICAL if cost >= thresholds.CRITICAL_SHARE else Severity.WARNING
    return Finding(
        "late_rank", severity, text, "ranks", chart="own-work", cost=cost, onset=None if is_from_begin else first,
        ranks=[one.rank], look_at=[sentences.look_at(one.rank)],
    )  # fmt: skip


def _compared(steps: Steps) -> list[StepComparison]:
    """Return the steps in which several ranks met: who had more work of its own."""
    lengths = _by_step(steps.by_rank)
    return [
        _comparison(first, work, sum(lengths[first].values()) / len(lengths[first]))
        for first, work in sorted(_by_step(steps.own).items())
        if len(work) > 1 and first in lengths
    ]


def _comparison(first: int, work: dict[int, float], length: float) -> StepComparison:
    order = sorted(work.items(), key=lambda item: -item[1])
    (_, most), (_, second), (_, least) = order[0], order[1], order[-1]
    late = []
    for number, ((_, more), (_, less)) in enumerate(pairwise(order), 1):
        if more - less >= LATE * length > 0:
            ranks, works = zip(*order[:number], strict=True)
            beyond = tuple(own - least for own in works)
            # The others wait for the one that comes after these.
            sets = (most - less, most - second, beyond, ("",) * number)
            late.append(LateTogether(_PLACE, "", ranks, len(order), *sets))
    return StepComparison(StepKey("", first), length, 0.0, {}, tuple(late))


def _by_step(lines: dict[int | None, Line]) -> dict[int, dict[int, float]]:
    """Return step -> rank -> mean."""
    by_step: dict[int, dict[int, float]] = {}
    for rank, line in lines.items():
        if rank is not None:
            for step, mean in zip(line.x, line.means, strict=True):
                by_step.setdefault(step, {})[rank] = mean
    return by_step


def _usually_lost(one: Lateness) -> tuple[float, float]:
    """Return the seconds lost per step, and their share of the steps' time, without the few dearest."""
    steps = sorted(zip(one.losses(), one.steps, strict=True), key=lambda item: item[0])
    most = _UNUSUAL * median(late.lost for late in one.late.values())
    kept = len(steps) - max(len(steps) // _LARGEST, 1)
    usual = [(lost, step) for number, (lost, step) in enumerate(steps) if number < kept or lost <= most]
    lost = sum(by for by, _ in usual)
    return lost / len(usual), share_of(lost, [step for _, step in usual])


def _cost(one: Lateness, compared: list[StepComparison]) -> float:
    """Return the share of the run's time."""
    lost, _ = _usually_lost(one)
    return share_of(lost * len(one.steps), compared)


def _place(collected: Collected, one: Lateness, lost: float) -> str:
    """Return the reward function, else the phase, in which a rank works longer than the fastest."""
    by_phase = collected.steps.parts
    of_functions = {key: line for key, line in of_rewards(collected, "seconds").items() if line.by_step}
    # It may have been late in a part of its steps only.
    first, last = one.steps[0].key.iteration, one.steps[-1].key.iteration
    parts = {key: line.total_between(first, last) for key, line in by_phase.items()}
    functions = {key: line.total_between(first, last) for key, line in of_functions.items()}
    counts = {
        rank: by_phase[UNCOVERED, rank].count_between(first, last) if (UNCOVERED, rank) in by_phase else 0
        for rank in collected.steps.ranks
    }
    ranks = {rank: totals for rank, totals in collected.steps.ranks.items() if rank is not None and totals.own.count}
    # Phases hold waits. It is the fastest rank that waits longest, so nothing of that is taken for work of another one.
    fastest = min(ranks, key=lambda rank: ranks[rank].own.mean)
    for what, seconds in (("reward function", functions), ("phase", parts)):
        differences = _differences(seconds, (one.rank, fastest), counts)
        if not differences:
            continue
        name, (own, least) = max(differences.items(), key=lambda item: item[1][0] - item[1][1])
        if own - least >= 0.5 * lost:
            where = "outside of all phases" if name == UNCOVERED else f"in {what} {name}"
            return f", {where} ({human.duration(own)} a step, {human.duration(least)} on the fastest)"
    return ""


def _differences(
    seconds: dict[Any, float], ranks: tuple[int, int], counts: dict[int | None, int]
) -> dict[str, tuple[float, float]]:
    """Return name -> seconds of a step on either rank."""
    own, other = ranks
    if not (counts[own] and counts[other]):
        return {}
    return {
        name: (seconds.get((name, own), 0.0) / counts[own], seconds.get((name, other), 0.0) / counts[other])
        for name in {name for name, _ in seconds}
    }
