"""Values that the program gives by :func:`otel_rl.gauge`: over time, since they belong to no step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import curves
from otel_rl.report.core.statistics import BinnedSeries

if TYPE_CHECKING:
    from otel_rl.report.core.curves import Curve
    from otel_rl.store.reader import Point

#: Most names, and most sets of attributes of each, that are drawn; and of which it is counted that they are not.
MOST_NAMES, MOST_SETS, _MOST_COUNTED = 60, 8, 1000
_CELLS = 20_000
_SCOPE, _KIND, _RESERVED = "otel_rl.api", "gauge", "rl."


class ProgramGauges:
    """A line for each name and set of attributes: the mean over the processes that have it."""

    def __init__(self) -> None:
        self._series = BinnedSeries(_CELLS)
        #: Name -> sets of attributes, as they are shown, in the order of their first values.
        self._sets: dict[str, dict[str, None]] = {}
        #: Names without room, and by name the sets of attributes without room.
        self.names_left_out: set[str] = set()
        self._sets_left_out: dict[str, set[str]] = {}

    def add_point(self, point: Point) -> None:
        """Take in a value of a gauge that the program has named; others are ignored."""
        if point.scope != _SCOPE or point.kind != _KIND or point.metric.startswith(_RESERVED):
            return
        labels = ", ".join(f"{key}={value}" for key, value in sorted(point.attributes.items()))
        if self._admit(point.metric, labels):
            self._series.add(point.time // 1_000_000_000, (point.metric, labels), point.value)

    def _admit(self, name: str, labels: str) -> bool:
        sets = self._sets.get(name)
        if sets is None:
            if len(self._sets) >= MOST_NAMES:
                _note(self.names_left_out, name)
                return False
            sets = self._sets[name] = {}
        if labels not in sets and len(sets) >= MOST_SETS:
            _note(self._sets_left_out.setdefault(name, set()), labels)
            return False
        sets[labels] = None
        return True

    def curves(self) -> dict[str, list[Curve]]:
        """Return the lines of each name; that of no attributes has the name of the gauge."""
        lines = self._series.lines()
        start = min((line[0][0] for line in lines.values()), default=0)
        drawn: dict[str, list[Curve]] = {}
        for name, sets in sorted(self._sets.items()):
            known = [(labels, lines[name, labels]) for labels in sets if (name, labels) in lines]
            drawn[name] = [
                curves.of_cells(
                    labels or name, [first for first, _ in line], [cell for _, cell in line], start, over_time=True
                )
                for labels, line in known
            ]
        return {name: of_name for name, of_name in drawn.items() if of_name}

    def left_out(self, name: str) -> int:
        """Return how many sets of attributes of ``name`` have no line."""
        return len(self._sets_left_out.get(name, ()))


def _note(left_out: set[str], item: str) -> None:
    if len(left_out) < _MOST_COUNTED:
        left_out.add(item)
