"""One step of all ranks: how far apart they entered the collectives, who was last, and what that cost the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.ranks.stragglers.replay import Replay

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_rl.ranks.stragglers.replay import Entered
    from otel_rl.ranks.stragglers.timeline import RankStep, StepKey

_NS = 1e9
#: What a rank did outside of all phases.
OUTSIDE = ""


class Straggler(NamedTuple):
    """The rank that cost the others most in one step."""

    rank: int
    #: So much earlier the others would have ended the step without it, in seconds; at most what it worked longer.
    lost: float
    #: The collective in which the others waited longest for it.
    operation: str
    group: str
    #: Where it spent more time than the others; empty: outside of all phases.
    phase: str


@dataclass(frozen=True)
class StepComparison:
    """The comparison of the ranks in one step."""

    key: StepKey
    #: Mean length of the step over the ranks, in seconds.
    length: float
    #: Mean time that a rank waited for ranks which had not entered yet, in seconds.
    waited: float
    #: Group -> seconds between its first and its last rank, the most over the collectives of the step.
    spreads: dict[str, float]
    #: None where no rank cost the others anything, or where records are missing.
    straggler: Straggler | None

    @property
    def lost_share(self) -> float:
        """Share of the step that the others lost to the straggler."""
        return lost_share([self])


def lost_share(steps: Iterable[StepComparison]) -> float:
    """Return the share of the time of these steps that was lost to their stragglers."""
    steps = list(steps)
    lost, length = sum(step.straggler.lost for step in steps if step.straggler), sum(step.length for step in steps)
    return min(lost / length, 1.0) if length > 0 else 0.0


def compare(key: StepKey, steps: Mapping[int, RankStep]) -> StepComparison:
    """Compare the ranks of one step; ``steps`` has the step of each rank, with moments of one clock."""
    replay = Replay(steps)
    waited = _waited(steps, replay.entered)
    return StepComparison(
        key,
        fmean(step.length for step in steps.values()) / _NS,
        fmean(sum(seconds.values()) for seconds in waited.values()) / _NS,
        _spreads(replay.entered),
        _straggler(steps, replay, waited),
    )


def _spreads(entered: Entered) -> dict[str, float]:
    spreads: dict[str, float] = {}
    for collective, moments in entered.items():
        if len(moments) > 1:
            spread = (max(moments.values()) - min(moments.values())) / _NS
            spreads[collective.group] = max(spread, spreads.get(collective.group, 0.0))
    return spreads


def _waited(steps: Mapping[int, RankStep], entered: Entered) -> dict[int, Counter[tuple[str, str]]]:
    """Rank -> (group, operation) -> ns that it waited while a rank had not entered yet."""
    by_rank: dict[int, Counter[tuple[str, str]]] = {rank: Counter() for rank in steps}
    for rank, step in steps.items():
        for wait in step.waits:
            moments = entered.get(wait.collective, {}).values()
            last = max((moment for moment in moments if moment <= wait.ended), default=wait.began)
            operation = step.operations.get(wait.collective, "")
            by_rank[rank][wait.collective.group, operation] += max(last - wait.began, 0)
    return by_rank


def _straggler(
    steps: Mapping[int, RankStep], replay: Replay, waited: Mapping[int, Counter[tuple[str, str]]]
) -> Straggler | None:
    rank, more = _latest(steps, _lateness(replay.entered))
    if rank is None:
        return None
    ends = replay.ends(without=rank)
    if not ends:
        return None
    lost = fmean(steps[other].ended - end for other, end in ends.items())
    # A rank that leaves a collective late enters the next one late, and has not worked longer for that.
    lost = min(lost, more.total()) / _NS
    if lost <= 0:
        return None
    others = sum((waited[other] for other in ends), start=Counter[tuple[str, str]]())
    group, operation = max(others, key=others.__getitem__, default=("", ""))
    return Straggler(rank, lost, operation, group, max(more, key=more.__getitem__))


def _latest(steps: Mapping[int, RankStep], late: Counter[int]) -> tuple[int | None, Counter[str]]:
    """Return the rank that was last by most of what its own work explains, and that work beyond the others'.

    Replaying without each rank would cost their number squared: this one is asked.
    """
    work = {rank: _work_by_phase(step) for rank, step in steps.items()} if late else {}
    latest, most, found = None, 0, Counter[str]()
    for rank, by in late.most_common():
        if by <= most:
            break
        more = _beyond(work, rank)
        if (explained := min(by, more.total())) > most:
            latest, most, found = rank, explained, more
    return latest, found


def _beyond(work: Mapping[int, Counter[str]], rank: int) -> Counter[str]:
    """Phase -> ns that ``rank`` worked beyond the median of the other ranks; only phases in which it did."""
    others = [of_rank for other, of_rank in work.items() if other != rank]
    more = {name: own - median(other[name] for other in others) for name, own in work[rank].items()}
    return Counter({name: round(by) for name, by in more.items() if by > 0})


def _lateness(entered: Entered) -> Counter[int]:
    """Rank -> ns by which it was later than the second to last rank, over all collectives."""
    late: Counter[int] = Counter()
    for moments in entered.values():
        if len(moments) > 1:
            *_, second, (last, rank) = sorted((moment, rank) for rank, moment in moments.items())
            late[rank] += last - second[0]
    return late


def _work_by_phase(step: RankStep) -> Counter[str]:
    """Ns that the rank worked in each phase, without its waits; of phases in each other the innermost counts."""
    work: Counter[str] = Counter()
    now, waits, phases = step.began, 0, [OUTSIDE]
    for moment, wait, phase, begins in _changes(step):
        if not waits:
            work[phases[-1]] += max(moment - now, 0)
        now = max(now, moment)
        waits += wait
        if begins:
            phases.append(phase)
        elif phase in phases[1:]:
            # The innermost of its name: phases end in the reverse order of their begins.
            del phases[len(phases) - 1 - phases[::-1].index(phase)]
    return work


def _changes(step: RankStep) -> list[tuple[int, int, str, bool]]:
    """In order of time: moment, how many waits more, phase, and whether the phase begins."""
    changes = [(step.ended, 0, OUTSIDE, False)]
    for wait in step.waits:
        changes += [(wait.began, 1, OUTSIDE, False), (min(wait.ended, step.ended), -1, OUTSIDE, False)]
    for phase in step.phases:
        changes += [
            (max(phase.began, step.began), 0, phase.name, True),
            (min(phase.ended, step.ended), 0, phase.name, False),
        ]
    return sorted(changes, key=lambda change: change[0])
