"""Series over the steps of a run; what belongs to no step goes by time."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from otel_rl.store.tables import RunTables

#: Most points of a line over time: each is of several seconds in a long run.
_POINTS = 600
_OVER_TIME = f"""
WITH p AS (SELECT {{key}}, time / 1000000000 AS second, value FROM {{points}}),
     run AS (SELECT min(second) AS begin, max((max(second) - min(second)) / {_POINTS}, 1) AS width FROM p)
SELECT {{key}}, NULL, (second - begin) / width * width AS x, count(*), sum(value), min(value), max(value)
FROM p, run WHERE value - value = 0 AND {{only}} GROUP BY {{key}}, x ORDER BY {{key}}, x"""


def _numbers() -> array[float]:
    return array("d")


@dataclass(slots=True)
class Line:
    """One series: of each step, or second since the epoch, the number, sum, smallest and largest of its values."""

    by_step: bool = True
    #: Steps of a point.
    width: int = 1
    x: list[int] = field(default_factory=list)
    numbers: array[float] = field(default_factory=_numbers)
    totals: array[float] = field(default_factory=_numbers)
    lows: array[float] = field(default_factory=_numbers)
    highs: array[float] = field(default_factory=_numbers)

    def append(self, x: int, number: float, total: float, low: float, high: float) -> None:
        """Add a point behind the last one, or to it where it has the same place."""
        if self.x and self.x[-1] == x:
            self.numbers[-1] += number
            self.totals[-1] += total
            self.lows[-1], self.highs[-1] = min(self.lows[-1], low), max(self.highs[-1], high)
            return
        self.x.append(x)
        self.numbers.append(number)
        self.totals.append(total)
        self.lows.append(low)
        self.highs.append(high)

    def cut(self, since: int) -> None:
        """Remove the points from ``since`` on."""
        kept = bisect_left(self.x, since)
        for values in (self.x, self.numbers, self.totals, self.lows, self.highs):
            del values[kept:]

    @property
    def means(self) -> list[float]:
        """Mean of each point."""
        return [total / number for total, number in zip(self.totals, self.numbers, strict=True)]

    @property
    def count(self) -> int:
        """Values in all points."""
        return int(sum(self.numbers))

    @property
    def total(self) -> float:
        """Sum of all values."""
        return sum(self.totals)

    def total_between(self, first: int, last: int) -> float:
        """Return the sum of the values from point ``first`` to point ``last``."""
        return sum(total for x, total in zip(self.x, self.totals, strict=True) if first <= x <= last)

    def count_between(self, first: int, last: int) -> int:
        """Return how many values are from point ``first`` to point ``last``."""
        return int(sum(number for x, number in zip(self.x, self.numbers, strict=True) if first <= x <= last))

    def points(self) -> Iterable[tuple[int, float, float, float, float]]:
        """Return place, number, sum, smallest and largest of each point."""
        return zip(self.x, self.numbers, self.totals, self.lows, self.highs, strict=True)


def of_rows(rows: Iterable[Sequence[Any]]) -> dict[Any, Line]:
    """Return lines by key, over steps; over time where more of the values belong to no step.

    Args:
        rows: key, step, second, number, sum, smallest and largest, ordered by key, step and second. The key is all that
            comes before the step.
    """
    lines: dict[Any, Line] = {}
    for key, of_key in groupby(rows, lambda row: tuple(row[:-6])):
        by_step, by_time = Line(), Line(by_step=False)
        for row in of_key:
            step, second, *values = row[-6:]
            if step is None:
                by_time.append(second, *values)
            else:
                by_step.append(step, *values)
        lines[key] = by_time if by_time.count > by_step.count else by_step
    return lines


def over_time(tables: RunTables, key: str, points: str, only: str = "1") -> dict[Any, Line]:
    """Return lines by key over the seconds since the first of some points; values that are not finite are left out.

    Args:
        tables: of the run.
        key: columns that tell lines apart.
        points: what has these columns, ``time`` and ``value``: a table, joined and with a condition.
        only: a condition on the lines; ``p`` has their key and ``value``.
    """
    return of_rows(tables.stream(_OVER_TIME.format(key=key, points=points, only=only)))


def merged(lines: dict[Any, Line], key: Callable[[Any], Hashable]) -> dict[Any, Line]:
    """Return lines whose keys have the same ``key`` as one; of those over steps and over time the more numerous."""
    groups: dict[Hashable, list[Line]] = {}
    for line_key, line in lines.items():
        groups.setdefault(key(line_key), []).append(line)
    return {name: _sum(group) for name, group in groups.items()}


def _sum(lines: list[Line]) -> Line:
    by_step = 2 * sum(line.count for line in lines if line.by_step) >= sum(line.count for line in lines)
    same = [line for line in lines if line.by_step == by_step]
    if len(same) == 1:
        return same[0]
    result = Line(by_step, same[0].width)
    for point in sorted((point for line in same for point in line.points()), key=lambda point: point[0]):
        result.append(*point)
    return result
