"""Meetings of ranks: what each did before a collective for which they wait. Nothing else is held against a rank.

Whoever knows when the ranks came can make them: rings tell the work since the wait before.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_rl.ranks.model.collectives import Collective

    #: Phase -> ns; an empty name: outside of all phases.
    Work = Mapping[str, int]

#: Meetings at one place that are told apart: of more each is too short to be late for.
MOST_NUMBERED = 8
#: Late sets of one step that are looked at: each is replayed.
MOST_SETS = 8


class Meeting(NamedTuple):
    """One collective for which ranks wait."""

    collective: Collective
    operation: str
    #: Phase in which they wait for it, or the last one before that; empty: there is none.
    phase: str
    #: Rank -> what it did since the wait before, its waits excluded.
    work: Mapping[int, Work]


class Place(NamedTuple):
    """Where in a step ranks meet, the same in each step: group, and phase in which they wait."""

    group: str
    phase: str
    #: The how manieth meeting there, from 1 on; 0: all of them.
    number: int = 0


class LateSet(NamedTuple):
    """Ranks that worked longer than all others before the meetings at one place."""

    place: Place
    #: Most work first.
    ranks: tuple[int, ...]
    #: Ns from the least work of these to the most of the others.
    gap: int


class Meetings:
    """The meetings of one step, by place.

    Args:
        meetings: In their order.
        numbered: Tell meetings in one phase apart, where they are few.
    """

    def __init__(self, meetings: Iterable[Meeting], *, numbered: bool = False) -> None:
        self.by_place: dict[Place, list[Meeting]] = {}
        for meeting in meetings:
            self.by_place.setdefault(Place(meeting.collective.group, meeting.phase), []).append(meeting)
        if numbered:
            self.by_place = {
                place._replace(number=number): [meeting]
                for place, several in self.by_place.items()
                if 1 < len(several) <= MOST_NUMBERED
                for number, meeting in enumerate(several, 1)
            }
        #: Place -> rank -> ns of work.
        self.work: dict[Place, Counter[int]] = {}
        for place, several in self.by_place.items():
            work = self.work[place] = Counter()
            for meeting in several:
                for rank, phases in meeting.work.items():
                    work[rank] += sum(phases.values())

    def late_sets(self, least: float) -> list[LateSet]:
        """Return the sets of ranks that are at least so many ns apart from the others, the widest gaps first."""
        found = []
        for place, work in self.work.items():
            order = work.most_common()
            for number, ((_, more), (_, less)) in enumerate(pairwise(order), 1):
                if more - less >= least:
                    found.append(LateSet(place, tuple(rank for rank, _ in order[:number]), more - less))
        return sorted(found, key=lambda late: -late.gap)[:MOST_SETS]

    def beyond_fastest(self, place: Place, rank: int) -> Counter[str]:
        """Phase -> ns that ``rank`` worked beyond the fastest rank at ``place``; only phases in which it did."""
        meetings = self.by_place[place]
        fastest = min(self.work[place], key=self.work[place].__getitem__)
        more: Counter[str] = Counter()
        for meeting in meetings:
            more.update(meeting.work.get(rank, {}))
            more.subtract(meeting.work.get(fastest, {}))
        return +more

    def mended(self, late: LateSet) -> dict[int, dict[Collective, float]]:
        """Return rank -> meeting -> share of its work that is left, where these ranks work as the fastest one."""
        left: dict[int, dict[Collective, float]] = {rank: {} for rank in late.ranks}
        for meeting in self.by_place[late.place]:
            totals = {rank: sum(phases.values()) for rank, phases in meeting.work.items()}
            fastest = min(totals.values())
            for rank in late.ranks:
                if totals.get(rank, 0) > fastest:
                    left[rank][meeting.collective] = fastest / totals[rank]
        return left
