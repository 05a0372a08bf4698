"""One step of all ranks: how far apart they entered the collectives, who was late, and what that cost the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.ranks.stragglers.meetings import Meetings
from otel_rl.ranks.stragglers.replay import Replay
from otel_rl.ranks.stragglers.stretches import meetings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_rl.ranks.stragglers.meetings import LateSet, Place
    from otel_rl.ranks.stragglers.replay import Entered
    from otel_rl.ranks.stragglers.timeline import RankStep, StepKey

    #: Rank -> (group, operation) -> ns that it waited while a rank had not entered yet.
    Waited = Mapping[int, Counter[tuple[str, str]]]

_NS = 1e9
#: Ranks are late from this share of the step on; a late rank that costs less is late no more.
LATE = 0.05


class Straggler(NamedTuple):
    """A rank that made the others wait at one place of a step."""

    rank: int
    #: So much earlier the others would have ended the step, in seconds, if it and those late beside it had worked as
    #: the fastest did; at most what it worked longer.
    lost: float
    #: The collective in which the others waited longest.
    operation: str
    group: str
    #: Where it spent more time than the fastest; empty: outside of all phases.
    phase: str
    #: What of ``lost`` mending this rank alone gives back: little where another one is as late.
    alone: float
    #: Ranks that were late with it.
    beside: tuple[int, ...] = ()


class LateTogether(NamedTuple):
    """Ranks that all others waited for at one place of a step."""

    place: Place
    operation: str
    #: Most work first.
    ranks: tuple[int, ...]
    #: How many ranks meet there.
    of: int
    #: So much earlier the others would have ended the step, in seconds, if these had worked as the fastest did.
    lost: float
    #: Seconds of it that mending the first of them alone gives back; mending another one alone gives nothing.
    alone: float
    #: Seconds that each worked beyond the fastest, and where.
    beyond: tuple[float, ...]
    phases: tuple[str, ...]

    def straggler(self, rank: int) -> Straggler:
        """Return one of them."""
        number = self.ranks.index(rank)
        lost = min(self.lost, self.beyond[number])
        beside = tuple(other for other in self.ranks if other != rank)
        alone = min(self.alone, lost) if number == 0 else 0.0
        return Straggler(rank, lost, self.operation, self.place.group, self.phases[number], alone, beside)


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
    #: The fewest ranks first. Of ranks that are late by different times each is in another set, with those before it.
    late: tuple[LateTogether, ...] = ()

    @property
    def straggler(self) -> Straggler | None:
        """The latest rank; None where no rank cost the others anything, or where records are missing."""
        return self.late[0].straggler(self.late[0].ranks[0]) if self.late else None

    @property
    def lost_share(self) -> float:
        """Share of the step that the others lost to it."""
        return share_of(self.straggler.lost, [self]) if self.straggler is not None else 0.0

    def is_apart(self, place: Place) -> bool:
        """Return whether some ranks were late at ``place``."""
        return any(late.place == place for late in self.late)

    def straggler_at(self, place: Place, rank: int, most: int) -> Straggler | None:
        """Return ``rank`` where it was late at ``place``, together with at most so many ranks, itself counted."""
        found = [late for late in self.late if late.place == place and rank in late.ranks and len(late.ranks) <= most]
        return max(found, key=lambda late: len(late.ranks)).straggler(rank) if found else None


def share_of(lost: float, steps: Iterable[StepComparison]) -> float:
    """Return the share of the time of these steps that ``lost`` seconds are; at most 1."""
    length = sum(step.length for step in steps)
    return min(lost / length, 1.0) if length > 0 else 0.0


def compare(key: StepKey, steps: Mapping[int, RankStep]) -> StepComparison:
    """Compare the ranks of one step; ``steps`` has the step of each rank, with moments of one clock."""
    replay = Replay(steps)
    waited = _waited(steps, replay.entered)
    length = fmean(step.length for step in steps.values())
    return StepComparison(
        key,
        length / _NS,
        fmean(ns.total() for ns in waited.values()) / _NS,
        _spreads(replay.entered),
        tuple(_Lateness(steps, replay, waited, length).find()),
    )


def _spreads(entered: Entered) -> dict[str, float]:
    spreads: dict[str, float] = {}
    for collective, moments in entered.items():
        if len(moments) > 1:
            spread = (max(moments.values()) - min(moments.values())) / _NS
            spreads[collective.group] = max(spread, spreads.get(collective.group, 0.0))
    return spreads


def _waited(steps: Mapping[int, RankStep], entered: Entered) -> dict[int, Counter[tuple[str, str]]]:
    by_rank: dict[int, Counter[tuple[str, str]]] = {rank: Counter() for rank in steps}
    for rank, step in steps.items():
        for wait in step.waits:
            moments = entered.get(wait.collective, {}).values()
            last = max((moment for moment in moments if moment <= wait.ended), default=wait.began)
            operation = step.operations.get(wait.collective, "")
            by_rank[rank][wait.collective.group, operation] += max(last - wait.began, 0)
    return by_rank


class _Lateness:
    """Who was late in one step, by the work of the ranks, and what that cost, by replaying the step."""

    def __init__(self, steps: Mapping[int, RankStep], replay: Replay, waited: Waited, length: float) -> None:
        self._steps, self._replay, self._waited = steps, replay, waited
        self._least = LATE * length

    def find(self) -> list[LateTogether]:
        """Return the ranks that were late."""
        # Without waits nobody was late, however unequal the work: so it is where the host waits for no collective.
        if max(ns.total() for ns in self._waited.values()) < self._least:
            return []
        of_step = meetings(self._steps)
        # Ranks that are late in turn within one phase are told apart by its meetings.
        for met in (Meetings(of_step), Meetings(of_step, numbered=True)):
            costs = {late: self._saved(late, met) for late in met.late_sets(self._least)}
            dear = sorted((late for late in costs if costs[late] >= self._least), key=lambda late: len(late.ranks))
            if dear:
                return [self._late_ranks(late, costs, met) for late in dear]
        return []

    def _saved(self, late: LateSet, met: Meetings) -> float:
        """Return so many ns earlier the others come to the end where these ranks work as the fastest."""
        ends = self._replay.ends(met.mended(late))
        if ends is None:
            return 0.0
        return max(fmean(self._steps[rank].ended - ends[rank] for rank in ends if rank not in late.ranks), 0.0)

    def _late_ranks(self, late: LateSet, costs: Mapping[LateSet, float], met: Meetings) -> LateTogether:
        work = met.work[late.place]
        (_, most), (_, second) = work.most_common(2)
        # The others wait for the next one then.
        narrowest = min((one for one in costs if one.place == late.place), key=lambda one: len(one.ranks))
        alone = costs[narrowest] if len(narrowest.ranks) == 1 else most - second
        more = [met.beyond_fastest(late.place, rank) for rank in late.ranks]
        return LateTogether(
            late.place,
            self._operation(late.place, late),
            late.ranks,
            len(work),
            costs[late] / _NS,
            min(alone, costs[late]) / _NS,
            tuple(by_phase.total() / _NS for by_phase in more),
            tuple(max(by_phase, key=by_phase.__getitem__, default="") for by_phase in more),
        )

    def _operation(self, place: Place, late: LateSet) -> str:
        """Return the operation of the group in which the others waited longest."""
        waited: Counter[str] = Counter()
        for rank, ns_of in self._waited.items():
            for (group, operation), ns in ns_of.items():
                if rank not in late.ranks and group == place.group:
                    waited[operation] += ns
        return max(waited, key=waited.__getitem__, default="")
