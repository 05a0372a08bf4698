"""The charts of the page, drawn by Bokeh in the browser.

All charts over iterations share one range and one crosshair: zooming one zooms all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bokeh.models import (
    BoxZoomTool,
    ColumnDataSource,
    CrosshairTool,
    HoverTool,
    Range1d,
    ResetTool,
    SaveTool,
)
from bokeh.models import Span as CrosshairLine
from bokeh.plotting import figure

from otel_rl.offline.report.render import colours

if TYPE_CHECKING:
    from bokeh.models import Model

    from otel_rl.offline.report.aggregate.scalars import Curve
    from otel_rl.offline.report.aggregate.statistics import Cell
    from otel_rl.offline.report.aggregate.steps import Steps
    from otel_rl.offline.report.aggregate.timeline import Timeline

_BARS = 150
_LINES = 8
_MARKERS = 60
_DENSE = 400
_ROW_HEIGHT = 22
_SECONDS = "seconds"


Legend = list[tuple[str, str]]
"""Names and colours of what a chart shows; empty when its title says it."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart with its title, one line on how to read it, and its legend (in HTML, where long names can wrap)."""

    title: str
    hint: str
    model: Model
    legend: Legend


class Charts:
    """Makes the charts of one page."""

    #: Label of every axis that counts iterations.
    STEP = "step"

    def __init__(self) -> None:
        self._steps = Range1d(0.5, 1.5)
        self._crosshair = CrosshairLine(dimension="height", line_color="#8a8f98", line_alpha=0.6)
        self._seen: list[float] = []

    def phases(self, title: str, steps: Steps) -> Drawing:
        """Stacked step time by phase, in s: mean over ranks."""
        bins, table = steps.mean_phases()
        phases = sorted((phase for phase in table if any(table[phase])), key=colours.order)
        width = steps.phases.width
        middles = [first + (width - 1) / 2 for first in bins]
        columns: dict[str, Any] = {f"p{index}": table[phase] for index, phase in enumerate(phases)}
        columns |= {"x": middles, "total": [sum(values) for values in zip(*table.values(), strict=True)]}
        source = ColumnDataSource(columns)
        chart = self._over_steps(middles, height=300, bin_width=width)
        names, fills = list(columns)[: len(phases)], [colours.of(phase) for phase in phases]
        if len(bins) <= _BARS:
            chart.vbar_stack(names, x="x", width=width * 0.86, color=fills, source=source, line_width=0)
        else:
            chart.varea_stack(names, x="x", color=fills, source=source)
        target = chart.vbar(x="x", top="total", width=width, alpha=0, line_alpha=0, source=source)
        tooltips = [(self.STEP, "@x{0}"), ("total", _seconds("total"))]
        tooltips += [(phase, _seconds(name)) for name, phase in zip(reversed(names), reversed(phases), strict=True)]
        chart.add_tools(HoverTool(renderers=[target], tooltips=tooltips, point_policy="follow_mouse"))
        legend = list(zip(phases, fills, strict=True))
        return Drawing(title, "", self._finished(chart, _SECONDS, from_zero=True), legend)

    def curves(self, title: str, hint: str, curves: list[Curve], *, x_label: str = STEP, height: int = 190) -> Drawing:
        """Lines of trainer values; only those over steps share the range of the steps."""
        chart = self._over_steps(curves[0].x, height) if x_label == self.STEP else self._plain(x_label, height)
        for curve, colour in zip(curves, colours.LINES, strict=False):
            self._line(chart, curve.name, curve.x, curve.y, colour, x_label)
        legend = [(curve.name, colour) for curve, colour in zip(curves, colours.LINES, strict=False)]
        return Drawing(title, hint, self._finished(chart), legend if len(curves) > 1 else [])

    def ranks(self, title: str, hint: str, lines: dict[Any, list[tuple[int, Cell]]]) -> Drawing:
        """One line for each rank, in s; of many ranks the fastest, the median and the slowest of every step."""
        points = _extremes(lines) if len(lines) > _LINES else {}
        for rank in sorted(lines, key=lambda rank: (rank is None, rank)) if not points else ():
            points[f"rank {rank}"] = [(float(first), cell.mean) for first, cell in lines[rank]]
        chart = self._over_steps([x for line in points.values() for x, _ in line], height=260)
        for (name, line), colour in zip(points.items(), colours.LINES, strict=False):
            x, y = [one for one, _ in line], [one for _, one in line]
            self._line(chart, name, x, y, colour, self.STEP)
        legend = list(zip(points, colours.LINES, strict=False))
        return Drawing(title, hint, self._finished(chart, _SECONDS, from_zero=True), legend)

    def timeline(self, title: str, hint: str, timeline: Timeline) -> Drawing:
        """Spans of one trace as bars over time in s."""
        height = max(_ROW_HEIGHT * len(timeline.rows) + 60, 130)
        chart = figure(
            height=height,
            sizing_mode="stretch_width",
            y_range=list(reversed(timeline.rows)),
            tools=[],
            x_axis_label="seconds since the beginning",
            output_backend="canvas",
        )
        bars = timeline.bars
        source = ColumnDataSource(
            {
                "row": [bar.row for bar in bars],
                "left": [bar.start for bar in bars],
                "right": [bar.start + bar.seconds for bar in bars],
                "seconds": [bar.seconds for bar in bars],
                "name": [bar.name for bar in bars],
                "error": [bar.error or "none" for bar in bars],
                "fill": [colours.of(bar.kind) for bar in bars],
                "line": [colours.FAILED if bar.error else colours.of(bar.kind) for bar in bars],
                "line_width": [2.5 if bar.error else 0.5 for bar in bars],
            }
        )
        target = chart.hbar(
            y="row", left="left", right="right", height=0.72, source=source,
            fill_color="fill", line_color="line", line_width="line_width",
        )  # fmt: skip
        tooltips = [("span", "@name"), ("took", _seconds("seconds")), ("error", "@error")]
        chart.add_tools(HoverTool(renderers=[target], tooltips=tooltips, point_policy="follow_mouse"))
        self._tools(chart)
        chart.ygrid.grid_line_color = None
        kinds = sorted({bar.kind for bar in bars}, key=colours.order)
        return Drawing(title, hint, chart, [(kind, colours.of(kind)) for kind in kinds])

    def close(self) -> None:
        """Set the shared range once all charts are known."""
        if self._seen:
            low, high = min(self._seen), max(self._seen)
            self._steps.start, self._steps.end = low, high
            self._steps.reset_start, self._steps.reset_end = low, high
            self._steps.bounds = (low, high)

    def _over_steps(self, x: list[float], height: int, bin_width: int = 1) -> figure:
        if x:
            self._seen += [min(x) - bin_width / 2, max(x) + bin_width / 2]
        chart = self._plain(self.STEP, height)
        chart.x_range = self._steps
        chart.add_tools(CrosshairTool(dimensions="height", overlay=self._crosshair))
        chart.xaxis.ticker.min_interval = 1
        return chart

    def _plain(self, x_label: str, height: int) -> figure:
        return figure(height=height, sizing_mode="stretch_width", tools=[], x_axis_label=x_label)

    def _line(self, chart: figure, name: str, x: list[float], y: list[float], colour: str, x_name: str) -> None:
        source = ColumnDataSource({"x": x, "y": y})
        options: dict[str, Any] = {"source": source, "color": colour}
        line = chart.line("x", "y", line_width=2 if len(x) <= _DENSE else 1.2, **options)
        if len(x) <= _MARKERS:
            chart.scatter("x", "y", size=5, **options)
        # The name is data of the run: as the first column of the tooltip it is shown as text, never as markup.
        tooltips = [(name, "@y{%.4g}"), (x_name, "@x{0}")]
        chart.add_tools(HoverTool(renderers=[line], mode="vline", tooltips=tooltips, formatters={"@y": "printf"}))

    def _finished(self, chart: figure, unit: str = "", *, from_zero: bool = False) -> figure:
        if from_zero:
            chart.y_range.start = 0
        if unit:
            chart.yaxis.axis_label = unit
        self._tools(chart)
        return chart

    @staticmethod
    def _tools(chart: figure) -> None:
        zoom = BoxZoomTool(dimensions="width")
        chart.add_tools(zoom, ResetTool(), SaveTool())
        chart.toolbar.active_drag = zoom
        chart.toolbar.logo = None
        chart.toolbar.autohide = True
        chart.toolbar_location = "right"


def _extremes(lines: dict[Any, list[tuple[int, Cell]]]) -> dict[str, list[tuple[float, float]]]:
    in_bin: dict[int, list[float]] = {}
    for line in lines.values():
        for first, cell in line:
            in_bin.setdefault(first, []).append(cell.mean)
    ordered = [(float(first), sorted(values)) for first, values in sorted(in_bin.items())]
    return {
        "slowest rank": [(first, values[-1]) for first, values in ordered],
        "median rank": [(first, values[len(values) // 2]) for first, values in ordered],
        "fastest rank": [(first, values[0]) for first, values in ordered],
    }


def _seconds(column: str) -> str:
    return f"@{column}{{0.000}} s"
