"""Many series over the steps of a run, in bounded memory; what belongs to no step goes by time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.statistics import BinnedSeries, Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

_SECOND = 1_000_000_000
_KEYS = 2_000


@dataclass(frozen=True, slots=True)
class Line:
    """One series: first step (or second since the epoch) of each bin, and the values in it."""

    x: list[int]
    cells: list[Cell]
    #: Steps or seconds of a bin.
    width: int
    by_step: bool

    @property
    def means(self) -> list[float]:
        """Mean of each bin."""
        return [cell.mean for cell in self.cells]

    @property
    def count(self) -> int:
        """Values in all bins."""
        return sum(cell.count for cell in self.cells)


class OverTime:
    """Values by key and step, each attempt on its own. Keys beyond some thousand are left out and counted."""

    def __init__(self, cells: int) -> None:
        self._by_step = BinnedSeries(cells)
        self._by_second = BinnedSeries(cells // 4)
        self._keys: set[Hashable] = set()
        self._superseded: frozenset[tuple[int, ...]] = frozenset()
        self.left_out = 0

    def leave_out(self, attempts: frozenset[tuple[int, ...]]) -> None:
        """Leave out the steps of these attempts, which a later attempt repeats."""
        self._superseded = attempts

    def add(self, key: Hashable, iteration: int | None, time: int, value: float, attempt: tuple[int, ...] = ()) -> None:
        """Add a value; ``time`` in ns since the epoch counts where there is no step."""
        if key not in self._keys:
            if len(self._keys) >= _KEYS:
                self.left_out += 1
                return
            self._keys.add(key)
        if iteration is None:
            self._by_second.add(time // _SECOND, key, value)
        else:
            self._by_step.add(iteration, (attempt, key), value)

    def lines(self) -> dict[Any, Line]:
        """Return for every key its series over steps; over time where most of its values belong to no step."""
        lines: dict[Any, Line] = {}
        for (attempt, key), cells in self._by_step.lines().items():
            if attempt not in self._superseded:
                by_step = _line(cells, self._by_step.width, by_step=True)
                lines[key] = _sum([lines[key], by_step]) if key in lines else by_step
        for key, line in self._by_second.lines().items():
            by_time = _line(line, self._by_second.width, by_step=False)
            if key not in lines or by_time.count > lines[key].count:
                lines[key] = by_time
        return lines


def _line(line: list[tuple[int, Cell]], width: int, *, by_step: bool) -> Line:
    return Line([first for first, _ in line], [cell for _, cell in line], width, by_step)


def merged(lines: dict[Any, Line], key: Callable[[Any], Hashable]) -> dict[Any, Line]:
    """Return lines whose keys have the same ``key`` as one; of those over steps and over time the more numerous."""
    groups: dict[Hashable, list[Line]] = {}
    for line_key, line in lines.items():
        groups.setdefault(key(line_key), []).append(line)
    return {name: _sum(group) for name, group in groups.items()}


def _sum(lines: Iterable[Line]) -> Line:
    lines = list(lines)
    by_step = 2 * sum(line.count for line in lines if line.by_step) >= sum(line.count for line in lines)
    same = [line for line in lines if line.by_step == by_step]
    cells: dict[int, Cell] = {}
    for line in same:
        for first, cell in zip(line.x, line.cells, strict=True):
            cells.setdefault(first, Cell()).merge(cell)
    x = sorted(cells)
    return Line(x, [cells[first] for first in x], same[0].width, by_step)
