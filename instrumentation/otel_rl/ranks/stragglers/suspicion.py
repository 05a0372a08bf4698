"""Whether comparing the ranks is worth its cost: while they wait alike, no rank makes the others wait.

A comparison reads every collective of a step. How long each rank has waited up to the end of its last step stands in
the header of its ring, and is read in microseconds. A late rank waits less than those that wait for it. By chance one
rank waits least in each step, but not the same one again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Ranks are suspicious from this difference on, as a share of the time; less than what is reported as a straggler.
LIMIT = 0.08
#: So many times in a row the same rank must have waited least.
TIMES = 3


class Suspicion:
    """Told how long the ranks have waited; says whether one of them may be late."""

    def __init__(self) -> None:
        self._before: Mapping[int, tuple[int, int]] = {}
        self._least: int | None = None
        self._times = 0

    @property
    def is_raised(self) -> bool:
        """One rank may be late."""
        return self._times >= TIMES

    def add(self, waited: Mapping[int, tuple[int, int]]) -> None:
        """Take into account when each rank's last step was over, and how long it had waited by then, in ns."""
        if waited.keys() != self._before.keys():
            # A rank came or went.
            self._before, self._least, self._times = waited, None, 0
            return
        shares = {}
        for rank, (moment, total) in waited.items():
            before, total_before = self._before[rank]
            if moment <= before:
                # It has ended no step since then: the others wait for it, or will.
                return
            shares[rank] = (total - total_before) / (moment - before)
        self._before = waited
        least = min(shares, key=shares.__getitem__, default=None)
        if least is None or max(shares.values()) - shares[least] < LIMIT:
            self._least, self._times = None, 0
        else:
            self._times = self._times + 1 if least == self._least else 1
            self._least = least
