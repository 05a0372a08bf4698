"""Who waits for whom. A rank in a collective waits for every rank of the group that has not entered it.

A collective is known by its group and its number in that group, which all ranks count alike. Where they may not have,
nothing is said of who waits for whom, and why.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.ranks.model.collectives import OPEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_rl.ranks.model.collectives import Collective, EnteredCollective, Numbering
    from otel_rl.ranks.model.groups import Group
    from otel_rl.ranks.postmortem.ranks import RankState


class RankWait(NamedTuple):
    """``waiting`` is in ``collective``, which ``missing`` did not enter."""

    waiting: RankState
    missing: RankState
    collective: EnteredCollective


class UnknownWait(NamedTuple):
    """``waiting`` is in ``collective``; whether ``other`` has entered it is not known, and ``reason`` says why."""

    waiting: RankState
    other: RankState
    collective: EnteredCollective
    reason: str


class OperationMismatch(NamedTuple):
    """``first`` is in ``collective``; ``second`` has issued another operation under its number."""

    first: RankState
    collective: EnteredCollective
    second: RankState
    operation: str

    @property
    def is_by_threads(self) -> bool:
        """True where another thread has issued it in each rank, and both issue collectives of the group in one."""
        collective = self.collective.collective
        issuers = (rank.issuers.get(collective.numbering, set()) for rank in (self.first, self.second))
        is_other = self.first.threads.get(collective, 0) != self.second.threads.get(collective, 0)
        return is_other and any(len(threads) > 1 for threads in issuers)


@dataclass
class Waits:
    """All waits, and where they end."""

    waits: list[RankWait] = field(default_factory=list)
    unknown: list[UnknownWait] = field(default_factory=list)
    #: Ranks that others wait for, and that wait for nobody themselves.
    origins: list[RankState] = field(default_factory=list)
    #: Ranks that wait for each other in a circle.
    circle: list[RankState] = field(default_factory=list)
    #: Collectives that all their ranks have entered and none has left.
    entered_by_all: list[EnteredCollective] = field(default_factory=list)
    mismatches: list[OperationMismatch] = field(default_factory=list)

    def on(self, rank: RankState) -> list[RankWait]:
        """Return the waits for ``rank``."""
        return self._on.get(id(rank), [])

    def of(self, rank: RankState) -> list[RankWait]:
        """Return the waits of ``rank``."""
        return self._of.get(id(rank), [])

    def behind(self, ranks: Iterable[RankState]) -> list[RankWait]:
        """Return the waits for ``ranks``, and those for who waits so; each rank that waits once."""
        left = list(ranks)
        found: dict[int, RankWait] = {}
        while left:
            following = [wait for wait in self.on(left.pop(0)) if id(wait.waiting) not in found]
            found |= {id(wait.waiting): wait for wait in following}
            left += [wait.waiting for wait in following]
        return list(found.values())

    @cached_property
    def _on(self) -> dict[int, list[RankWait]]:
        return _by((wait.missing, wait) for wait in self.waits)

    @cached_property
    def _of(self) -> dict[int, list[RankWait]]:
        return _by((wait.waiting, wait) for wait in self.waits)


def _by(waits: Iterable[tuple[RankState, RankWait]]) -> dict[int, list[RankWait]]:
    by_rank: dict[int, list[RankWait]] = defaultdict(list)
    for state, wait in waits:
        by_rank[id(state)].append(wait)
    return by_rank


def find_waits(states: list[RankState]) -> Waits:
    """Compare the ranks with each other."""
    between = Waits()
    ranks = [state for state in states if state.ring.rank is not None]
    # Of each numbering, the process that stands for each rank.
    farthest: dict[Numbering, dict[int, RankState]] = {}
    for waiting in ranks:
        for entered in waiting.unfinished:
            numbering = entered.collective.numbering
            if entered.collective.is_shared:
                if numbering not in farthest:
                    farthest[numbering] = _farthest(numbering, ranks)
                _compare(between, waiting, entered, farthest[numbering])
    between.origins = [state for state in ranks if between.on(state) and not between.of(state)]
    if between.waits and not between.origins:
        between.circle = _circle(between)
    return between


def _farthest(numbering: Numbering, ranks: list[RankState]) -> dict[int, RankState]:
    """Rank -> its process; of several with one rank, the farthest in the group."""
    by_rank: dict[int, RankState] = {}
    for state in ranks:
        rank = state.ring.rank
        is_farther = rank not in by_rank or state.entered.get(numbering, 0) > by_rank[rank].entered.get(numbering, 0)
        if rank is not None and is_farther:
            by_rank[rank] = state
    return by_rank


def _compare(between: Waits, waiting: RankState, entered: EnteredCollective, by_rank: dict[int, RankState]) -> None:
    collective = entered.collective
    others = []
    for other in _others(waiting, collective.group, by_rank):
        reason = _why_unknown(waiting, other, entered)
        if reason:
            between.unknown.append(UnknownWait(waiting, other, entered, reason))
        else:
            others.append(other)
    numbering, number = collective.numbering, collective.number or 0
    between.waits += [RankWait(waiting, other, entered) for other in others if other.entered.get(numbering, 0) < number]
    for other in others:
        operation = other.operations.get(collective, entered.operation)
        if operation != entered.operation and not any(pair.first is other for pair in between.mismatches):
            between.mismatches.append(OperationMismatch(waiting, entered, other, operation))
    is_whole = len(others) + 1 == collective.group.size
    is_new = all(known.collective != collective for known in between.entered_by_all)
    if is_whole and is_new and all(_is_in(state, entered) for state in (waiting, *others)):
        between.entered_by_all.append(entered)


def _others(waiting: RankState, group: Group, by_rank: dict[int, RankState]) -> Iterator[RankState]:
    """Yield the other ranks of the group, and those that may be."""
    members, first = group.members, group.first
    # Where those that name it are as many as it has, the others are not in it.
    by_name = members is None and sum(first in state.generations for state in by_rank.values()) == group.size
    for rank, state in by_rank.items():
        is_one = first in state.generations if by_name else members is None or rank in members
        if is_one and rank != waiting.ring.rank:
            yield state


def _why_unknown(waiting: RankState, other: RankState, entered: EnteredCollective) -> str:
    """Why the numbers of the two cannot be compared; empty where they can."""
    collective = entered.collective
    numbering, group = collective.numbering, collective.group
    if group.is_one_of_many:
        return "the program made more groups than the ring has names for"
    if other.generations.get(group.first, 0) > group.generation:
        return "the group was made again there since"
    if collective.number and other.entered.get(numbering, 0) >= collective.number:
        return ""
    if not collective.number or numbering in other.unnumbered:
        return "two threads used the group at once, and its numbers are not reliable"
    if other.is_old_copy and other.ring.last_sign < waiting.ring.wall(entered.moment):
        return "only a copy of its ring from before that was found"
    return _why_not_comparable(waiting, other, collective)


def _why_not_comparable(waiting: RankState, other: RankState, collective: Collective) -> str:
    numbering, group = collective.numbering, collective.group
    if group.members is None and group.first not in other.generations:
        return "the group's list of ranks had no room in the ring, and it may not be one of them"
    if numbering not in other.entered:
        return _why_none(other, numbering)
    if waiting.failed_launches.get(group, 0) != other.failed_launches.get(group, 0) and not numbering.is_of_torch:
        return "a launch of the group has failed in one of them, and they may count differently since"
    return ""


def _why_none(other: RankState, numbering: Numbering) -> str:
    """Why ``other`` has no such numbers; empty where it entered no collective that has one."""
    group = numbering.group
    if numbering.is_of_torch:
        # It may issue them and not see them.
        return f"{other.label} recorded none of the collectives of C++ code of this group"
    latest = other.generations.get(group.first)
    if latest is not None:
        # A process that was replaced begins to count anew, and is in what looks like an earlier one.
        unfinished = (mine.collective.group for mine in other.unfinished)
        is_in_earlier = any(mine.first == group.first and mine != group for mine in unfinished)
        return "the process waits in an earlier group with that name and these ranks" if is_in_earlier else ""
    # A ring that has lost its oldest records cannot tell of a group that it does not name.
    if not other.reaches_back:
        return f"the ring of {other.label} has lost its oldest collectives"
    return "" if group.generation == 1 else "the process used none of the earlier groups with that name and these ranks"


def _is_in(state: RankState, entered: EnteredCollective) -> bool:
    return any(
        (mine.collective, mine.operation, mine.outcome) == (entered.collective, entered.operation, OPEN)
        for mine in state.unfinished
    )


def _circle(between: Waits) -> list[RankState]:
    """Follow the waits until a rank comes again."""
    path = [between.waits[0].waiting]
    while True:
        following = between.of(path[-1])[0].missing
        for place, state in enumerate(path):
            if state is following:
                return path[place:]
        path.append(following)
