"""Draws each kind of chart once per process: Bokeh takes ten times as long as all the rest of a report.

The first chart with the same labels, glyphs, tooltips and columns is drawn, and stands for those that differ in values
only. A module whose tests look at the charts themselves says `DRAWS_ALL_CHARTS = True`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from bokeh.models import Spacer

from otel_rl.report.core import figures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bokeh.models import Model

    from otel_rl.report.core.plots import Plot

_draw = figures.Figures.model
_drawn: set[str] = set()


@pytest.fixture(autouse=True, scope="module")
def charts_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Skip a chart that differs from an earlier one only in its values."""
    with pytest.MonkeyPatch.context() as patches:
        if not getattr(request.module, "DRAWS_ALL_CHARTS", False):
            patches.setattr(figures.Figures, "model", _draw_new_ones)
        yield


def _draw_new_ones(self: figures.Figures, plot: Plot) -> Model:
    kind = _kind(plot)
    if kind in _drawn:
        return Spacer()
    _drawn.add(kind)
    return _draw(self, plot)


def _kind(plot: Plot) -> str:
    structure: dict[str, Any] = plot.structure()
    structure |= {"rows": bool(plot.rows), "marks": bool(plot.marks), "height": 0}
    glyphs = [{**glyph, "values": sorted(glyph["values"])} for glyph in structure["glyphs"]]
    columns = [sorted(source) for source in plot.sources]
    return json.dumps({**structure, "glyphs": glyphs, "columns": columns}, sort_keys=True)
