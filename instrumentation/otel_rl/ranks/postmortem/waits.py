"""Who waits for whom. A rank in a collective waits for every rank of the group that has not entered it.

A collective is known by its group and its number in that group, which all ranks count alike. Where they may not have,
nothing is said of who waits for whom, and why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder import layout

if TYPE_CHECKING:
    from otel_rl.ranks.postmortem.ranks import EnteredCollective, Numbering, RankState


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
    #: Ranks that issued different operations under one number: (rank, operation), (rank, operation).
    mismatches: list[tuple[RankState, EnteredCollective, RankState, str]] = field(default_factory=list)

    def on(self, rank: RankState) -> list[RankWait]:
        """The waits for ``rank``."""
        return [wait for wait in self.waits if wait.missing is rank]

    def of(self, rank: RankState) -> list[RankWait]:
        """The waits of ``rank``."""
        return [wait for wait in self.waits if wait.waiting is rank]


def find(states: list[RankState]) -> Waits:
    """Compare the ranks with each other."""
    found = Waits()
    ranks = [one for one in states if one.ring.rank is not None]
    for waiting in ranks:
        for collective in waiting.unfinished:
            if collective.is_shared:
                _compare(found, waiting, collective, ranks)
    waiters = {id(wait.waiting) for wait in found.waits}
    found.origins = [one for one in ranks if id(one) not in waiters and found.on(one)]
    if found.waits and not found.origins:
        found.circle = _circle(found)
    return found


def _compare(found: Waits, waiting: RankState, collective: EnteredCollective, ranks: list[RankState]) -> None:
    others = []
    for one in _others(waiting, collective, ranks):
        reason = _why_unknown(waiting, one, collective)
        if reason:
            found.unknown.append(UnknownWait(waiting, one, collective, reason))
        else:
            others.append(one)
    numbering, number = collective.numbering, collective.number or 0
    found.waits += [RankWait(waiting, one, collective) for one in others if one.entered.get(numbering, 0) < number]
    for one in others:
        operation = one.operations.get((numbering, number), collective.operation)
        if operation != collective.operation and not any(pair[0] is one for pair in found.mismatches):
            found.mismatches.append((waiting, collective, one, operation))
    known = ((one.numbering, one.number) for one in found.entered_by_all)
    is_whole = len(others) + 1 == len(collective.group.ranks or ())
    is_new = (numbering, number) not in known
    if is_whole and is_new and all(_is_in(one, collective) for one in (waiting, *others)):
        found.entered_by_all.append(collective)


def _why_unknown(waiting: RankState, one: RankState, collective: EnteredCollective) -> str:
    """Why the numbers of the two cannot be compared; empty where they can."""
    numbering, group = collective.numbering, collective.group
    if group.name == layout.OTHER_TEXT:
        return "the program made more groups than the ring has names for"
    if collective.number and one.entered.get(numbering, 0) >= collective.number:
        return ""
    if not collective.number or numbering in one.unnumbered:
        return "two threads used the group at once, and its numbers are not reliable"
    if one.is_old_copy and one.ring.last_sign < waiting.ring.wall(collective.moment):
        return "only a copy of its ring from before that was found"
    return _why_not_comparable(waiting, one, collective)


def _why_not_comparable(waiting: RankState, one: RankState, collective: EnteredCollective) -> str:
    numbering, group = collective.numbering, collective.group
    if numbering not in one.entered:
        return _why_none(one, numbering)
    if waiting.failed_launches.get(group, 0) != one.failed_launches.get(group, 0) and not numbering.is_of_torch:
        return "a launch of the group has failed in one of them, and they may count differently since"
    return ""


def _why_none(one: RankState, numbering: Numbering) -> str:
    """Why ``one`` has no such numbers; empty where it entered no collective that has one."""
    if numbering.is_of_torch:
        # It may issue them and not see them.
        return f"{one.label} recorded none of the collectives of C++ code of this group"
    # A ring that has lost its oldest records cannot tell of a group that it does not name.
    return "" if one.reaches_back else f"the ring of {one.label} has lost its oldest collectives"


def _others(waiting: RankState, collective: EnteredCollective, ranks: list[RankState]) -> list[RankState]:
    """The other ranks of the group; of several processes with one rank the one that came farthest in the group."""
    group, numbering = collective.group, collective.numbering
    by_rank: dict[int, RankState] = {}
    for one in ranks:
        rank = one.ring.rank
        if rank is None or rank == waiting.ring.rank or (group.ranks is not None and rank not in group.ranks):
            continue
        if rank not in by_rank or one.entered.get(numbering, 0) > by_rank[rank].entered.get(numbering, 0):
            by_rank[rank] = one
    return list(by_rank.values())


def _is_in(one: RankState, collective: EnteredCollective) -> bool:
    return any(
        mine.numbering == collective.numbering and mine.number == collective.number and mine.outcome == "open"
        for mine in one.unfinished
    )


def _circle(found: Waits) -> list[RankState]:
    """Follow the waits until a rank comes again."""
    path = [found.waits[0].waiting]
    while True:
        following = found.of(path[-1])[0].missing
        for place, one in enumerate(path):
            if one is following:
                return path[place:]
        path.append(following)
