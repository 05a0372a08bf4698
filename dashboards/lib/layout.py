"""Boards as rows of cells; positions follow from the widths, nobody writes coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import attr
from grafanalib import core

if TYPE_CHECKING:
    from dashboards.lib.panels import Panel
    from dashboards.lib.variables import Variable

COLUMNS = 24
_TITLE_HEIGHT = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """A panel with its size in grid units."""

    panel: Panel
    width: int = 8
    height: int = 8


@dataclass(frozen=True, slots=True)
class Row:
    """A titled row; its cells flow from left to right and wrap."""

    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """A board; ``name`` makes its uid ``otel-rl-<name>`` and its file name.

    ``data_sources`` are the names of the selectors of data sources that it needs.
    """

    name: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    annotations: tuple[dict[str, Any], ...] = ()
    data_sources: tuple[str, ...] = ("prom", "tempo", "loki")

    @property
    def uid(self) -> str:
        """The fixed uid, so that links to the board stay valid."""
        return f"otel-rl-{self.name}"

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of all rows."""
        return tuple(cell for row in self.rows for cell in row.cells)


def place(rows: tuple[Row, ...]) -> list[core.Panel]:
    """Return the panels of ``rows`` with ids and positions."""
    panels: list[core.Panel] = []
    top = 0
    for row in rows:
        panels.append(core.RowPanel(title=row.title, gridPos=core.GridPos(_TITLE_HEIGHT, COLUMNS, 0, top)))
        top += _TITLE_HEIGHT
        left = line_height = 0
        for cell in row.cells:
            if left + cell.width > COLUMNS:
                left, top, line_height = 0, top + line_height, 0
            position = {"gridPos": core.GridPos(cell.height, cell.width, left, top)}
            panels.append(attr.evolve(cell.panel, **position))
            left, line_height = left + cell.width, max(line_height, cell.height)
        top += line_height
    return panels
