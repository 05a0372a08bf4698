"""Time by lane and kind in bins that cover the whole run: they grow wider as it grows longer."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

#: Most bins, and most bins of all lanes.
BINS, CELLS = 1024, 1 << 17
_FEWEST = 128
#: Width of the first bins, in ns.
_NARROWEST = 1 << 20


class Bins:
    """Seconds by (lane, kind) and bin; memory depends on neither the length of the run nor what happened in it."""

    def __init__(self) -> None:
        #: Width of a bin in ns.
        self.width = _NARROWEST
        self._number = BINS
        #: Number of the first bin, counted from the epoch, and of the last one that holds something.
        self._first: int | None = None
        self._last = 0
        self._cells: dict[tuple[int, int], array[float]] = {}

    def reserve(self, lanes: int) -> None:
        """Have fewer bins where there are many lanes."""
        while self._number > _FEWEST and lanes * self._number > CELLS:
            self._number //= 2
            if self._first is not None:
                self._fit(self._first, self._last)
                self._cells = {key: cells[: self._number] for key, cells in self._cells.items()}

    def add(self, lane: int, kind: int, start: int, end: int, sign: int = 1) -> None:
        """Add the time from ``start`` to ``end``, in ns since the epoch, or take it away."""
        first, last = start // self.width, (end - 1) // self.width
        if self._first is None or first < self._first or last >= self._first + self._number:
            self._fit(first, last)
            first, last = start // self.width, (end - 1) // self.width
        assert self._first is not None  # noqa: S101 - for the type checker
        self._last = max(self._last, last)
        cells = self._cells.get((lane, kind))
        if cells is None:
            cells = self._cells[lane, kind] = array("d", bytes(8 * self._number))
        place = first - self._first
        if first == last:
            cells[place] += sign * (end - start) / 1e9
            return
        width = self.width
        cells[place] += sign * ((first + 1) * width - start) / 1e9
        for between in range(place + 1, last - self._first):
            cells[between] += sign * width / 1e9
        cells[last - self._first] += sign * (end - last * width) / 1e9

    def fill(self, lane: int, kind: int, start: int, end: int) -> None:
        """Add what of the time from ``start`` to ``end`` no kind has, as far as the bins tell."""
        while start < end:
            stop = min((start // self.width + 1) * self.width, end)
            self.add(lane, kind, start, stop, 0)
            place = start // self.width - (self._first or 0)
            taken = sum(cells[place] for (other, _), cells in self._cells.items() if other == lane)
            free = min(stop - start, round(self.width - taken * 1e9))
            if free > 0:
                self.add(lane, kind, start, start + free)
            start = stop

    def _fit(self, first: int, last: int) -> None:
        """Have room for these bins too: make bins wider until all fit."""
        if self._first is None:
            self._first, self._last = first, last
        before = self._first
        low, high = min(before, first), max(self._last, last)
        halvings = 0
        while (high >> halvings) - (low >> halvings) >= self._number:
            halvings += 1
        self.width <<= halvings
        self._first, self._last = low >> halvings, high >> halvings
        if self._first != before or halvings:
            places = (np.arange(before, before + BINS) >> halvings) - self._first
            self._cells = {key: self._moved(cells, places) for key, cells in self._cells.items()}

    def _moved(self, cells: array[float], places: NDArray[np.int64]) -> array[float]:
        values = np.frombuffer(cells)
        moved = np.zeros(self._number)
        held = values.nonzero()[0]
        np.add.at(moved, places[held], values[held])
        return array("d", moved.tobytes())

    @property
    def start(self) -> int:
        """The beginning of the first bin, in ns since the epoch."""
        return (self._first or 0) * self.width

    @property
    def number(self) -> int:
        """Bins up to the last one that holds something."""
        return 0 if self._first is None else self._last - self._first + 1

    def table(self, lane: int, kinds: int) -> NDArray[np.float64]:
        """Return the seconds of a lane, a row for each kind."""
        rows = np.zeros((kinds, self.number))
        for kind in range(kinds):
            cells = self._cells.get((lane, kind))
            if cells is not None:
                # What was taken away again leaves a rounding error.
                rows[kind] = np.maximum(np.frombuffer(cells)[: self.number], 0)
        return rows

    def totals(self) -> Iterator[tuple[int, int, float]]:
        """Yield lane, kind and its seconds."""
        for (lane, kind), cells in self._cells.items():
            yield lane, kind, max(sum(cells), 0.0)
