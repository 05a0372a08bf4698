"""A line of values that the page draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_rl.report.core.lines import Line

#: Points beyond which a line shows means, with a band from the smallest to the largest value.
MOST_POINTS = 300
#: What the points count: the steps of the page, or, beside guessed steps, what the program gave with its log calls.
STEP, LOGGED = "step", "logged step"


@dataclass(slots=True)
class Curve:
    """One line: iterations (or seconds since the start) against means of ``number`` values in all.

    ``over_time`` says that the points do not count steps, ``counts`` what they count else. ``low`` and ``high`` are the
    smallest and the largest value behind each mean, where these were kept.
    """

    name: str
    x: list[float]
    y: list[float]
    number: int
    over_time: bool = False
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    #: Steps (or seconds) from a point to the next one, and words on what a point is the mean of, where of several.
    width: int = 1
    said: str = ""
    counts: str = STEP

    def smoothed(self) -> Curve:
        """Return the line itself, or, of a long one, the means of its neighbouring points."""
        if len(self.x) <= MOST_POINTS and self.width == 1:
            return self
        together = -(-len(self.x) // MOST_POINTS)
        parts = [slice(start, start + together) for start in range(0, len(self.x), together)]
        low, high = self.low or self.y, self.high or self.y
        return Curve(
            self.name,
            [_mean(self.x[part]) for part in parts],
            [_mean(self.y[part]) for part in parts],
            self.number,
            self.over_time,
            [min(low[part]) for part in parts],
            [max(high[part]) for part in parts],
            said=f"mean of {self._amount(together)}, band min to max",
            counts=self.counts,
        )

    def _amount(self, together: int) -> str:
        """Return how much so many points stand for."""
        is_without_gaps = (len(self.x) - 1) * self.width == self.x[-1] - self.x[0]
        if self.over_time or not is_without_gaps:
            return f"{together} values" if self.width == 1 else "several values"
        return f"{together * self.width} {self.counts}s"


def of_line(name: str, line: Line, start: int = 0, counts: str = STEP) -> Curve:
    """Return the means of a line, with its smallest and largest values; ``start`` becomes zero."""
    x = [float(place - start) for place in line.x]
    return Curve(
        name, x, line.means, line.count, not line.by_step, list(line.lows), list(line.highs),
        line.width if line.by_step else 1, counts=counts,
    )  # fmt: skip


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
