"""Time by state in bins that cover the whole run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from otel_rl.report.subjects.state_timeline.states import STATES

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Most bins of a lane, fewest of many lanes, and most of all lanes.
BINS, _FEWEST, CELLS = 1024, 128, 1 << 17
#: Width of the narrowest bins, in ns; others are a power of two wider.
_NARROWEST = 1 << 20
_FIRST_LETTER, _TENTHS = 65, 9


class Bins(NamedTuple):
    """The bins of each lane; times in ns, ``start`` since the epoch."""

    start: int
    width: int
    number: int

    @classmethod
    def covering(cls, start: int, end: int, lanes: int) -> Bins:
        """Return the narrowest bins for so many lanes between two moments."""
        most, width = BINS, _NARROWEST
        while most > _FEWEST and lanes * most > CELLS:
            most //= 2
        while (end - 1) // width - start // width >= most:
            width *= 2
        first = start // width
        return cls(first * width, width, max((end - 1) // width - first + 1, 0))


@dataclass(slots=True)
class TimeOfLane:
    """Seconds of one lane by state and bin; of a run that grows bins are added at the end."""

    bins: Bins
    _cells: dict[int, list[float]] = field(default_factory=dict)

    def add(self, kind: int, start: int, end: int) -> None:
        """Add the time between two moments, in ns since the epoch."""
        zero, width = self.bins.start, self.bins.width
        cells = self._cells.setdefault(kind, [])
        cells += [0.0] * (self.bins.number - len(cells))
        first, last = (start - zero) // width, (end - 1 - zero) // width
        if first == last:
            cells[first] += (end - start) / 1e9
            return
        cells[first] += ((first + 1) * width + zero - start) / 1e9
        for between in range(first + 1, last):
            cells[between] = width / 1e9
        cells[last] += (end - last * width - zero) / 1e9

    def table(self) -> NDArray[np.float64]:
        """Return the seconds, a row for each state."""
        rows = np.zeros((len(STATES), self.bins.number))
        for kind, cells in self._cells.items():
            rows[kind, : len(cells)] = cells
        return rows


def written(table: NDArray[np.float64], width: int) -> str:
    """Return for each bin a letter for the state that took most of it, and the share of that state in tenths."""
    most, seconds = table.argmax(axis=0), table.max(axis=0)
    tenths = np.rint(seconds / (width / 1e9) * _TENTHS).astype(int)
    return "".join(
        f"{chr(_FIRST_LETTER + kind)}{min(share, _TENTHS)}" if spent else ".0"
        for kind, share, spent in zip(most, tenths, seconds, strict=True)
    )
