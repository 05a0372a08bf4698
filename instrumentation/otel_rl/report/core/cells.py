"""Building blocks of a table of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.report.core import human

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_rl.report.core.statistics import Spread


@dataclass(frozen=True, slots=True)
class Value:
    """A table cell.

    ``sort`` orders the column; ``tone`` is ``good``, ``bad`` or ``muted``; ``swatch`` a colour; ``link`` the id of a
    place of the page.
    """

    text: str
    sort: float | None = None
    tone: str = ""
    swatch: str = ""
    link: str = ""


@dataclass(slots=True)
class Table:
    """Columns (``>`` before a title aligns it to the right) and rows; rows beyond ``shown`` fold away.

    With ``filters`` every column has a field that leaves only rows that fit.
    """

    columns: Sequence[str]
    rows: list[list[Value]] = field(default_factory=list)
    shown: int = 12
    filters: bool = False


def seconds_cell(value: float | None) -> Value:
    """Return a cell with a duration, given in s."""
    return Value(human.duration(value), value)


def number_cell(value: float | None) -> Value:
    """Return a cell with a number."""
    return Value(human.number(value), value)


def quantile_cell(spread: Spread, share: float, words: Callable[[float | None], str] = human.duration) -> Value:
    """Return a cell with a quantile, or with its upper bound where a histogram knows no more."""
    bound = spread.bound(share)
    value = spread.quantile(share) if bound is None else bound
    return Value(words(value) if bound is None else f"\N{LESS-THAN OR EQUAL TO} {words(bound)}", value)
