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
        """Return the waits for ``rank``."""
        return [wait for wait in self.waits if wait.missing is rank]

    def of(self, rank: RankState) -> list[RankWait]:
        """Return the waits of ``rank``."""
        return [wait for wait in self.waits if wait.waiting is rank]


def find_waits(states: list[RankState]) -> Waits:
    """Compare the ranks with each other."""
    between = Waits()
    ranks = [state for state in states if state.ring.rank is not None]
    for waiting in ranks:
        for collective in waiting.unfinished:
            if collective.is_shared:
                _compare(between, waiting, collective, ranks)
    waiters = {id(wait.waiting) for wait in between.waits}
    between.origins = [state for state in ranks if id(state) not in waiters and between.on(state)]
    if between.waits and not between.origins:
        between.circle = _circle(between)
    return between


def _compare(between: Waits, waiting: RankState, collective: EnteredCollective, ranks: list[RankState]) -> None:
    others = []
    for other in _others(waiting, collective, ranks):
        reason = _why_unknown(waiting, other, collective)
        if reason:
            between.unknown.append(UnknownWait(waiting, other, collective, reason))
        else:
            others.append(other)
    numbering, number = collective.numbering, collective.number or 0
    between.waits += [
        RankWait(waiting, other, collective) for other in others if other.entered.get(numbering, 0) < number
    ]
    for other in others:
        operation = other.operations.get((numbering, number), collective.operation)
        if operation != collective.operation and not any(pair[0] is other for pair in between.mismatches):
            between.mismatches.append((waiting, collective, other, operation))
    known = ((entered.numbering, entered.number) for entered in between.entered_by_all)
    is_whole = len(others) + 1 == len(collective.group.ranks or ())
    is_new = (numbering, number) not in known
    if is_whole and is_new and all(_is_in(state, collective) for state in (waiting, *others)):
        between.entered_by_all.append(collective)


def _why_unknown(waiting: RankState, other: RankState, collective: EnteredCollective) -> str:
    """Why the numbers of the two cannot be compared; empty where they can."""
    numbering, group = collective.numbering, collective.group
    if group.name == layout.OTHER_TEXT:
        return "the program made more groups than the ring has names for"
    if collective.number and other.entered.get(numbering, 0) >= collective.number:
        return ""
    if not collective.number or numbering in other.unnumbered:
        return "two threads used the group at once, and its numbers are not reliable"
    if other.is_old_copy and other.ring.last_sign < waiting.ring.wall(collective.moment):
        return "only a copy of its ring from before that was found"
    return _why_not_comparable(waiting, other, collective)


def _why_not_comparable(waiting: RankState, other: RankState, collective: EnteredCollective) -> str:
    numbering, group = collective.numbering, collective.group
    if numbering not in other.entered:
        return _why_none(other, numbering)
    if waiting.failed_launches.get(group, 0) != other.failed_launches.get(group, 0) and not numbering.is_of_torch:
        return "a launch of the group has failed in one of them, and they may count differently since"
    return ""


def _why_none(other: RankState, numbering: Numbering) -> str:
    """Why ``one`` has no such numbers; empty where it entered no collective that has one."""
    if numbering.is_of_torch:
        # It may issue them and not see them.
        return f"{other.label} recorded none of the collectives of C++ code of this group"
    # A ring that has lost its oldest records cannot tell of a group that it does not name.
    return "" if other.reaches_back else f"the ring of {other.label} has lost its oldest collectives"


def _others(waiting: RankState, collective: EnteredCollective, ranks: list[RankState]) -> list[RankState]:
    """Return the other ranks of the group; of several processes with one rank, the farthest in the group."""
    group, numbering = collective.group, collective.numbering
    by_rank: dict[int, RankState] = {}
    for state in ranks:
        rank = state.ring.rank
        if rank is None or rank == waiting.ring.rank or (group.ranks is not None and rank not in group.ranks):
            continue
        if rank not in by_rank or state.entered.get(numbering, 0) > by_rank[rank].entered.get(numbering, 0):
            by_rank[rank] = state
    return list(by_rank.values())


def _is_in(state: RankState, collective: EnteredCollective) -> bool:
    return any(
        mine.numbering == collective.numbering and mine.number == collective.number and mine.outcome == "open"
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
