"""Descriptions of charts: columns of values, and what is drawn of them; whoever draws makes its models from that.

:mod:`.figures` makes Bokeh's models for a page that is written once, ``report.js``' sibling ``plots.js`` makes them in
the browser for a page that follows a run. Models cost a hundred times what columns cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Values by the name of their column: numbers or texts.
Columns = dict[str, list[Any]]
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Glyph:
    """What is drawn of the columns of one source.

    ``kind`` is a method of Bokeh's ``figure`` (``line``, ``hbar``); ``fields`` gives properties the column that they
    take, ``values`` one value; ``stacked`` are the columns of ``vbar_stack`` and ``varea_stack``.
    """

    kind: str
    fields: Mapping[str, str]
    values: Mapping[str, Any] = field(default_factory=dict)
    stacked: Sequence[str] = ()
    source: int = 0


@dataclass(frozen=True, slots=True)
class Hover:
    """The tooltip of a glyph: (label, template) for each line of it.

    A label is shown as text. ``mode`` is ``vline`` where it finds the point above or below the mouse, ``follows`` is
    True where it stays at the mouse.
    """

    glyph: int
    tooltips: Sequence[tuple[str, str]]
    mode: str = "mouse"
    follows: bool = False


@dataclass(slots=True)
class Plot:
    """One chart without its title.

    Attributes:
        height: in pixels.
        x_label: of the axis below.
        y_label: of the axis at the left, ``""`` for none.
        over_steps: True where it shares the range of all charts over steps.
        is_logarithmic: True where the axis at the left is.
        from_zero: True where the axis at the left begins at zero.
        rows: names beside rows of bars, from the top; of a chart whose axis at the left has no numbers.
        has_y_axis: False where the axis at the left says nothing.
        marks: places of dashed lines.
        glyphs: what is drawn, from the back to the front.
        hovers: tooltips.
        sources: the values.
        x_range: ends of the axis below, None where it follows the values.
        y_range: the same at the left.
    """

    height: int
    x_label: str
    y_label: str = ""
    over_steps: bool = False
    is_logarithmic: bool = False
    from_zero: bool = False
    rows: Sequence[str] = ()
    has_y_axis: bool = True
    marks: list[float] = field(default_factory=list)
    glyphs: list[Glyph] = field(default_factory=list)
    hovers: list[Hover] = field(default_factory=list)
    sources: list[Columns] = field(default_factory=list)
    x_range: Ends | None = None
    y_range: Ends | None = None

    def add(self, kind: str, fields: Mapping[str, str], *, stacked: Sequence[str] = (), **values: Any) -> int:
        """Draw something of the last source; return its place among the glyphs."""
        self.glyphs.append(Glyph(kind, fields, values, stacked, len(self.sources) - 1))
        return len(self.glyphs) - 1

    def structure(self) -> dict[str, Any]:
        """Return all but the values and the ranges: what does not change while a chart only grows."""
        return {
            "height": self.height,
            "x_label": self.x_label,
            "y_label": self.y_label,
            "over_steps": self.over_steps,
            "is_logarithmic": self.is_logarithmic,
            "from_zero": self.from_zero,
            "rows": list(self.rows),
            "has_y_axis": self.has_y_axis,
            "marks": self.marks,
            "is_fixed": [self.x_range is not None, self.y_range is not None],
            "glyphs": [
                {
                    "kind": glyph.kind,
                    "fields": dict(glyph.fields),
                    "values": dict(glyph.values),
                    "stacked": list(glyph.stacked),
                    "source": glyph.source,
                }
                for glyph in self.glyphs
            ],
            "hovers": [
                {
                    "glyph": hover.glyph,
                    "tooltips": [list(line) for line in hover.tooltips],
                    "mode": hover.mode,
                    "follows": hover.follows,
                }
                for hover in self.hovers
            ],
        }
