"""Building blocks of a table of the page."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from otel_rl.report.core import axes, human

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_rl.report.core.axes import Axis
    from otel_rl.report.core.statistics import Spread

#: Durations that differ more than so many times have no unit in common; nor have those from so many s on.
_WIDE, _LONG = 1000, 60


@dataclass(frozen=True, slots=True)
class Value:
    """A table cell.

    ``sort`` orders the column; ``seconds`` says that it is a duration in s; ``tone`` is ``good``, ``bad`` or ``muted``;
    ``swatch`` a colour; ``link`` the id of a place of the page.
    """

    text: str
    sort: float | None = None
    tone: str = ""
    swatch: str = ""
    link: str = ""
    seconds: bool = False


@dataclass(slots=True)
class Table:
    """Columns (``>`` before a title aligns it to the right) and rows; rows beyond ``shown`` fold away.

    With ``filters`` every column has a field that leaves only rows that fit.
    """

    columns: Sequence[str]
    rows: list[list[Value]] = field(default_factory=list)
    shown: int = 12
    filters: bool = False

    def without_empty(self, *titles: str) -> Table:
        """Return the table without those of the named columns that no row fills."""
        filled = [
            any(row[place].text not in ("", human.UNKNOWN) for row in self.rows) for place in range(len(self.columns))
        ]
        kept = [place for place, title in enumerate(self.columns) if filled[place] or title not in titles]
        rows = [[row[place] for place in kept] for row in self.rows]
        return replace(self, columns=[self.columns[place] for place in kept], rows=rows)


def seconds_cell(value: float | None) -> Value:
    """Return a cell with a duration, given in s."""
    return Value(human.duration(value), value, seconds=True)


def number_cell(value: float | None) -> Value:
    """Return a cell with a number."""
    return Value(human.number(value), value)


def quantile_cell(spread: Spread, share: float, words: Callable[[float | None], str] = human.duration) -> Value:
    """Return a cell with a quantile, or with its upper bound where a histogram knows no more."""
    bound = spread.bound(share)
    value = spread.quantile(share) if bound is None else bound
    if bound is not None:
        return Value(f"\N{LESS-THAN OR EQUAL TO} {words(bound)}", value)
    return Value(words(value), value, seconds=words is human.duration)


def duration_cells(spread: Spread) -> list[Value]:
    """Return cells with the mean, p50, p95, largest and sum of durations."""
    cell, quantiles = spread.cell, [quantile_cell(spread, share) for share in (0.5, 0.95)]
    longest = cell.maximum if cell.count else None
    return [seconds_cell(cell.mean), *quantiles, seconds_cell(longest), seconds_cell(cell.total)]


def in_one_unit(table: Table) -> list[list[Value]]:
    """Return the rows with one unit in each column of durations, where it suits all of them."""
    units = [_unit([row[place] for row in table.rows]) for place in range(len(table.columns))]
    return [[_in_unit(cell, unit) for cell, unit in zip(row, units, strict=True)] for row in table.rows]


def _unit(column: list[Value]) -> Axis | None:
    """Return the unit of most durations; None where some would be written with many zeros, or are long."""
    values = sorted(cell.sort for cell in column if cell.seconds and cell.sort is not None and cell.sort > 0)
    if not values or values[-1] > _WIDE * values[0] or values[-1] >= _LONG:
        return None
    return axes.SECONDS.axis(values[len(values) // 2 :][:1])


def _in_unit(cell: Value, unit: Axis | None) -> Value:
    if unit is None or not cell.seconds or not cell.sort or not math.isfinite(cell.sort):
        return cell
    return replace(cell, text=f"{human.three_digits(cell.sort * unit.factor)} {unit.label}")
