"""Bokeh's models of the charts of one page, from their descriptions.

All charts over iterations share one range and one crosshair: zooming one zooms all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bokeh.models import (
    BoxZoomTool,
    ColumnDataSource,
    CrosshairTool,
    FixedTicker,
    HoverTool,
    Range1d,
    ResetTool,
    SaveTool,
)
from bokeh.models import Span as CrosshairLine
from bokeh.plotting import figure

from otel_rl.report.core import colours

if TYPE_CHECKING:
    from bokeh.models import Model, Renderer

    from otel_rl.report.core.plots import Ends, Glyph, Hover, Plot


class Figures:
    """Makes the models of one page."""

    def __init__(self) -> None:
        self._steps = Range1d(0.5, 1.5)
        self._crosshair = CrosshairLine(dimension="height", line_color="#8a8f98", line_alpha=0.6)

    def show_steps(self, ends: Ends) -> None:
        """Set the range that the charts over steps share."""
        self._steps.start, self._steps.end = ends
        self._steps.reset_start, self._steps.reset_end = ends
        self._steps.bounds = ends

    def model(self, plot: Plot) -> Model:
        """Make the models of one chart."""
        scale = "log" if plot.is_logarithmic else "linear"
        options = {"x_axis_label": plot.x_label, "y_axis_type": scale}
        chart = figure(height=plot.height, sizing_mode="stretch_width", tools=[], **options)
        if plot.over_steps:
            chart.x_range = self._steps
            chart.add_tools(CrosshairTool(dimensions="height", overlay=self._crosshair))
            chart.xaxis.ticker.min_interval = 1
        elif plot.x_range is not None:
            chart.x_range = Range1d(*plot.x_range)
        if plot.y_range is not None:
            chart.y_range = Range1d(*plot.y_range)
        _axis(chart, plot)
        sources = [ColumnDataSource(columns) for columns in plot.sources]
        drawn = [_draw(chart, glyph, sources[glyph.source]) for glyph in plot.glyphs]
        for place in plot.marks:
            line = {"dimension": "height", "line_color": colours.FAILED, "line_dash": "dashed", "line_width": 1.5}
            chart.add_layout(CrosshairLine(location=place, **line))
        chart.add_tools(*(_hover(hover, drawn[hover.glyph]) for hover in plot.hovers))
        _add_tools(chart)
        return chart


def _axis(chart: figure, plot: Plot) -> None:
    """Say what is at the left: a quantity, names of rows, or nothing."""
    if plot.y_label:
        chart.yaxis.axis_label = plot.y_label
    if plot.from_zero:
        chart.y_range.start = 0
    if plot.rows:
        # As numbers with labels: two rows may have the same name.
        places = list(range(len(plot.rows)))
        chart.yaxis.ticker = FixedTicker(ticks=places)
        chart.yaxis.major_label_overrides = dict(zip(reversed(places), plot.rows, strict=True))
    chart.yaxis.visible = plot.has_y_axis
    if plot.rows or not plot.has_y_axis:
        chart.ygrid.grid_line_color = None


def _draw(chart: figure, glyph: Glyph, source: ColumnDataSource) -> Renderer:
    draw = getattr(chart, glyph.kind)
    if glyph.stacked:
        return draw(list(glyph.stacked), source=source, **glyph.fields, **glyph.values)[-1]
    return draw(source=source, **glyph.fields, **glyph.values)


def _hover(hover: Hover, renderer: Renderer) -> HoverTool:
    options: dict[str, Any] = {"point_policy": "follow_mouse"} if hover.follows else {}
    if hover.mode != "mouse":
        options["mode"] = hover.mode
    return HoverTool(renderers=[renderer], tooltips=list(hover.tooltips), **options)


def _add_tools(chart: figure) -> None:
    zoom = BoxZoomTool(dimensions="width")
    chart.add_tools(zoom, ResetTool(), SaveTool())
    chart.toolbar.active_drag = zoom
    chart.toolbar.logo = None
    chart.toolbar.autohide = True
    chart.toolbar_location = "right"
