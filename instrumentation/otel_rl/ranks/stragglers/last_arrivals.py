"""Which rank came last in each collective, from the time that each rank's device spent in it.

All ranks leave a collective that keeps them together at nearly the same moment, and a device is in it from the moment
when its rank is ready. So the rank that was in it for the shortest time came last, and the others were in it longer by
what they waited. Communication may overlap computation, and then a device that waits loses nothing: what comes out of
this is an upper bound. No clocks are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_rl.ranks.model.collectives import Collective

    #: Where ranks issue different operations under one number they are not in one collective.
    _Key = tuple[Collective, str]

#: Collectives that wait for the times of further ranks. Beyond it half of all collectives are looked at, then a
#: quarter: the same ones of each rank, since a file holds all collectives of one rank.
MOST_WAITING = 100_000
#: Ranks above this are not compared.
MOST_RANKS = 4096
#: From so many seconds on a wait is long: a launch that was late by microseconds is no reason.
LONG = 0.005
#: Spreads the numbers of collectives evenly over 32 bits: each step issues the same ones in the same order.
_SPREAD, _BITS = 2_654_435_761, 32


class _DeviceTimes:
    """What is known of one collective, however many ranks there are."""

    __slots__ = ("least", "rank", "ranks", "seen", "total")

    def __init__(self) -> None:
        #: A bit for each rank.
        self.seen = 0
        self.ranks = 0
        self.total = 0.0
        self.least = float("inf")
        self.rank = -1


@dataclass
class LastRank:
    """The collectives in which one rank came last."""

    rank: int
    collectives: int = 0
    #: Those in which the others waited long, and the seconds of all of these waits, mean over the other ranks.
    long: int = 0
    waited: float = 0.0
    #: Operation and group -> seconds of these waits.
    places: dict[tuple[str, str], float] = field(default_factory=dict)


class LastArrivals:
    """Takes in the times of all ranks, in any order."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, _DeviceTimes] = {}
        self._by_rank: dict[int, LastRank] = {}
        #: One collective in ``2 ** halvings`` is looked at.
        self.halvings = 0
        #: Collectives of which all ranks' times are known.
        self.compared = 0

    @property
    def incomplete(self) -> int:
        """Collectives of which times of some ranks are missing."""
        return len(self._waiting)

    @property
    def long(self) -> int:
        """Compared collectives with a long wait."""
        return sum(last.long for last in self._by_rank.values())

    def ranks(self) -> list[LastRank]:
        """Return the ranks that came last somewhere, the one for which the others waited most first."""
        return sorted(self._by_rank.values(), key=lambda last: (-last.waited, last.rank))

    def add(self, collective: Collective, operation: str, rank: int, seconds: float) -> None:
        """Take in the time of ``rank``; of a group whose size is not known nothing is."""
        size, key = collective.group.size or 0, (collective, operation)
        if not (1 < size <= MOST_RANKS and 0 <= rank < MOST_RANKS and self._is_looked_at(key)):
            return
        times = self._waiting.get(key)
        if times is None:
            times = self._waiting[key] = _DeviceTimes()
            if len(self._waiting) > MOST_WAITING:
                self._halve()
        if times.seen >> rank & 1:
            return
        times.seen |= 1 << rank
        times.ranks += 1
        times.total += seconds
        if seconds < times.least:
            times.least, times.rank = seconds, rank
        if times.ranks == size:
            self._waiting.pop(key, None)
            self._compare(key, times)

    def _compare(self, key: _Key, times: _DeviceTimes) -> None:
        self.compared += 1
        last = self._by_rank.setdefault(times.rank, LastRank(times.rank))
        last.collectives += 1
        waited = (times.total - times.ranks * times.least) / (times.ranks - 1)
        if waited >= LONG:
            last.long += 1
            last.waited += waited
            place = key[1], key[0].group.words
            last.places[place] = last.places.get(place, 0.0) + waited

    def _is_looked_at(self, key: _Key) -> bool:
        return not ((key[0].number or 0) * _SPREAD & (1 << _BITS) - 1) >> (_BITS - self.halvings)

    def _halve(self) -> None:
        self.halvings += 1
        self._waiting = {key: times for key, times in self._waiting.items() if self._is_looked_at(key)}
