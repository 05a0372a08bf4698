"""What a reward has done since its first steps: risen, solved, or fallen from its best level."""

from __future__ import annotations

from math import isfinite
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from otel_rl.health.curves import InputWindow

#: Values whose median is the present level of a reward.
LEVEL_WINDOW = 5
#: Share of the best value from which on a reward that has risen counts as solved.
SOLVED_SHARE = 0.95
#: Least rise, as a share of the first level, and in multiples of the usual change from step to step.
RISE_SHARE, RISE_CHANGES = 0.2, 3


def is_solved(reward: InputWindow | None) -> bool:
    """Return whether a reward has risen and is at its best: nothing is left to learn, which is no fault."""
    if reward is None:
        return False
    start = reward.start(LEVEL_WINDOW)
    if start is None or reward.peak <= start:
        return False
    return reward.now(LEVEL_WINDOW) - start >= SOLVED_SHARE * (reward.peak - start)


def has_risen(reward: InputWindow | None) -> bool:
    """Return whether a reward is above its first steps, beyond its noise."""
    start = reward.start(LEVEL_WINDOW) if reward is not None else None
    if reward is None or start is None or reward.number < 2 * LEVEL_WINDOW:
        return False
    rise = reward.now(LEVEL_WINDOW) - start
    return rise > max(RISE_SHARE * abs(start), RISE_CHANGES * reward.change)


class Fall(NamedTuple):
    """How far a curve is below its best level."""

    best: float
    now: float
    #: The mean change from one value to the next, at its largest.
    change: float
    #: What a share of the fall is one of: the best level, or what the curve had gained.
    scale: float

    @property
    def size(self) -> float:
        """How far below."""
        return self.best - self.now

    def is_beyond(self, least: float, changes: float) -> bool:
        """Return whether the fall has at least this size, and that of so many changes."""
        # Of sums that are too large for a number the size is none.
        return self.size >= max(least, changes * self.change) and isfinite(self.size)


class BestLevel:
    """The best mean of so many values in a row that a curve has had; of four samples a median is a coarse level."""

    def __init__(self) -> None:
        self._best, self._change = float("-inf"), 0.0

    def fall(self, curve: InputWindow, window: float) -> Fall:
        """Take in the latest values, and compare."""
        latest = curve.values[-int(window) :]
        level = sum(latest) / len(latest)
        # Of rewards that are mostly zero the usual change knows too little.
        change = sum(map(abs, map(sub, latest[1:], latest))) / max(len(latest) - 1, 1)
        self._best, self._change = max(self._best, level), max(self._change, change)
        start = curve.start(LEVEL_WINDOW)
        gained = 0.0 if start is None else self._best - start
        return Fall(self._best, level, self._change, max(abs(self._best), gained, 1e-9))
