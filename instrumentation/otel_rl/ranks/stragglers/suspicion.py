"""Whether comparing the ranks is worth its cost: while they wait alike, no rank makes the others wait.

A comparison reads every collective of a step. How long each rank has waited up to the end of its last step stands in
the header of its ring, and is read in microseconds. A late rank waits less than those that wait for it. By chance one
rank waits least in each step, but not the same one again and again. Ranks that wait for each other in turn wait alike,
and long: that is suspicious too, until a comparison has found it harmless, as on a slow network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Ranks are suspicious from this difference on, as a share of the time; less than what is reported as a straggler.
LIMIT = 0.08
#: So many times in a row the same rank must have been suspicious.
TIMES = 3


class Suspicion:
    """Told how long the ranks have waited; says whether one of them may be late."""

    def __init__(self) -> None:
        self._before: Mapping[int, tuple[int, int]] = {}
        #: Of these one or several may be late; they were suspicious so many times in a row.
        self._suspects: set[int] = set()
        self._times = 0
        #: Share of its time that the rank which waits least has waited of late, and that it may wait.
        self._least = self._harmless = 0.0

    @property
    def is_raised(self) -> bool:
        """One rank may be late."""
        return self._times >= TIMES

    def add(self, waited: Mapping[int, tuple[int, int]]) -> None:
        """Take into account when each rank's last step was over, and how long it had waited by then, in ns."""
        if waited.keys() != self._before.keys():
            # A rank came or went.
            self._before, self._suspects, self._times, self._harmless = waited, set(), 0, 0.0
            return
        shares = {}
        for rank, (moment, total) in waited.items():
            before, total_before = self._before[rank]
            if moment <= before:
                # It has ended no step since then: the others wait for it, or will.
                return
            shares[rank] = (total - total_before) / (moment - before)
        self._before = waited
        suspects = self._suspects_of(shares)
        same = self._suspects & suspects
        self._times = 0 if not suspects else self._times + 1 if same else 1
        self._suspects = same or suspects

    def clear(self) -> None:
        """Ranks that wait so long, and alike, have been compared, and none was late."""
        self._harmless = max(self._harmless, self._least)

    def _suspects_of(self, shares: Mapping[int, float]) -> set[int]:
        if len(shares) < 2:  # noqa: PLR2004 - who is alone waits for nobody
            return set()
        self._least = min(shares.values())
        if self._least - self._harmless >= LIMIT:
            # They may wait for each other in turn.
            return set(shares)
        if max(shares.values()) - self._least < LIMIT:
            return set()
        # Of several that are late each may be the one that waits least.
        return {rank for rank, share in shares.items() if share < self._least + LIMIT / 2}
