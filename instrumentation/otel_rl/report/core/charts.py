"""The charts of the page, drawn by Bokeh in the browser.

All charts over iterations share one range and one crosshair: zooming one zooms all.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bokeh.models import (
    BoxZoomTool,
    ColumnDataSource,
    CrosshairTool,
    HoverTool,
    Label,
    Range1d,
    ResetTool,
    SaveTool,
)
from bokeh.models import Span as CrosshairLine
from bokeh.plotting import figure

from otel_rl.report.core import colours

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bokeh.models import Model

    from otel_rl.report.core.curves import Curve
    from otel_rl.report.core.over_time import Line
    from otel_rl.report.core.statistics import Cell
    from otel_rl.report.core.steps import Steps
    from otel_rl.report.core.timeline import Timeline

_BARS = 150
_LINES = 8
_MARKERS = 60
_DENSE = 400
_ROW_HEIGHT = 22
_SECONDS = "seconds"
#: The largest value is so many times the median: the scale is logarithmic.
_MAGNITUDES = 100
_FEWEST_FOR_LOGARITHM = 4


Legend = list[tuple[str, str]]
"""Names and colours of what a chart shows; empty when its title says it."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart with its title, one line on how to read it, and its legend (in HTML, where long names can wrap)."""

    title: str
    hint: str
    model: Model
    legend: Legend
    #: What links to the chart name it by.
    key: str = ""


class Charts:
    """Makes the charts of one page."""

    #: Label of every axis that counts iterations.
    STEP = "step"
    TIME = "time (s)"

    def __init__(self, marks: Mapping[str, Sequence[int]] | None = None) -> None:
        #: Steps at which something began, by the key of the chart.
        self._marks = marks or {}
        #: Key of a chart, or of a trainer's value -> name of the figure that shows it.
        self.figures: dict[str, str] = {}
        self._steps = Range1d(0.5, 1.5)
        self._crosshair = CrosshairLine(dimension="height", line_color="#8a8f98", line_alpha=0.6)
        self._seen: list[float] = []

    def phases(self, title: str, steps: Steps) -> Drawing:
        """Draw stacked step time by phase, in s: mean over ranks."""
        bins, table = steps.mean_phases()
        phases = sorted((phase for phase in table if any(table[phase])), key=colours.order)
        width = steps.phases.width
        middles = [first + (width - 1) / 2 for first in bins]
        columns: dict[str, Any] = {f"p{index}": table[phase] for index, phase in enumerate(phases)}
        columns |= {"x": middles, "total": [sum(values) for values in zip(*table.values(), strict=True)]}
        source = ColumnDataSource(columns)
        chart = self._over_steps(middles, height=300, bin_width=width)
        names, fills = list(columns)[: len(phases)], [colours.colour_of(phase) for phase in phases]
        if len(bins) <= _BARS:
            chart.vbar_stack(names, x="x", width=width * 0.86, color=fills, source=source, line_width=0)
        else:
            chart.varea_stack(names, x="x", color=fills, source=source)
        target = chart.vbar(x="x", top="total", width=width, alpha=0, line_alpha=0, source=source)
        tooltips = [(self.STEP, "@x{0}"), ("total", _seconds("total"))]
        tooltips += [(phase, _seconds(name)) for name, phase in zip(reversed(names), reversed(phases), strict=True)]
        chart.add_tools(HoverTool(renderers=[target], tooltips=tooltips, point_policy="follow_mouse"))
        legend = list(zip(phases, fills, strict=True))
        self._mark(chart, "phase-seconds")
        return Drawing(title, "", self._finished(chart, _SECONDS, from_zero=True), legend, "phase-seconds")

    def over_time(self, key: str, title: str, hint: str, lines: dict[str, Line], unit: str) -> Drawing:
        """Draw means of several series over the steps, or over time; of many series those with the largest sum."""
        by_step = 2 * sum(line.by_step for line in lines.values()) >= len(lines)
        same = {name: line for name, line in lines.items() if line.by_step == by_step}
        ordered = sorted(same, key=lambda name: -sum(cell.total for cell in same[name].cells))
        shown = sorted(ordered[:_LINES])
        start = 0 if by_step else min(line.x[0] for line in same.values())
        points = {name: [float(x - start) for x in same[name].x] for name in shown}
        x_label = self.STEP if by_step else self.TIME
        every_x = [x for line in points.values() for x in line]
        chart = self._over_steps(every_x, 190) if by_step else self._plain(x_label, 190)
        for name, colour in zip(shown, colours.LINES, strict=False):
            self._line(chart, name, points[name], same[name].means, colour, x_label)
        if by_step:
            self._mark(chart, key)
        left = len(ordered) - len(shown)
        hint += f"{', ' if hint else ''}the {len(shown)} largest of {len(ordered)}" if left else ""
        legend = list(zip(shown, colours.LINES, strict=False))
        return Drawing(title, hint, self._finished(chart, unit, from_zero=True), legend, key)

    def _mark(self, chart: figure, key: str) -> None:
        """Draw where something began that this chart shows."""
        self.figures.setdefault(key, key)
        for step in self._marks.get(key, ()):
            line = {"dimension": "height", "line_color": colours.FAILED, "line_dash": "dashed", "line_width": 1.5}
            chart.add_layout(CrosshairLine(location=step - 0.5, **line))
            label = {"text": f"step {step}", "text_color": colours.FAILED, "text_font_size": "11px"}
            chart.add_layout(Label(x=step - 0.5, y=2, y_units="screen", x_offset=4, **label))

    def curves(self, title: str, hint: str, curves: list[Curve], *, x_label: str = STEP, height: int = 190) -> Drawing:
        """Draw lines of trainer values; only those over steps share the range of the steps."""
        is_wide, key = _spans_magnitudes(curves), f"values-{len(self.figures)}"
        scale = "log" if is_wide else "linear"
        if x_label == self.STEP:
            chart = self._over_steps(curves[0].x, height, scale=scale)
        else:
            chart = self._plain(x_label, height, scale)
        for curve, colour in zip(curves, colours.LINES, strict=False):
            # A logarithm has no zero: such points are gaps.
            y = [value if value > 0 else math.nan for value in curve.y] if is_wide else curve.y
            self._line(chart, curve.name, curve.x, y, colour, x_label)
            self.figures.setdefault(curve.name, key)
            if x_label == self.STEP:
                self._mark(chart, curve.name)
        values = {value for curve in curves for value in curve.y}
        if is_wide:
            hint = f"{hint}; logarithmic scale" if hint else "logarithmic scale"
        elif len(values) == 1:
            (value,) = values
            # Left to itself Bokeh shows -1 to 1 around one value: a small one would look like zero.
            chart.y_range = Range1d(min(2 * value, 0.0), max(2 * value, 0.0)) if value else Range1d(-1, 1)
            once = f"once, at step {curves[0].x[0]:.0f}" if x_label == self.STEP else "once"
            seen = "throughout" if any(curve.number > 1 for curve in curves) else once
            hint = f"{value:.4g} {seen}{'; ' if hint else ''}{hint}"
        legend = [(curve.name, colour) for curve, colour in zip(curves, colours.LINES, strict=False)]
        return Drawing(title, hint, self._finished(chart), legend if len(curves) > 1 else [], key)

    def ranks(self, title: str, hint: str, lines: dict[Any, list[tuple[int, Cell]]], key: str = "") -> Drawing:
        """Draw one line for each rank, in s; of many ranks the fastest, the median and the slowest of every step."""
        points = _extremes(lines) if len(lines) > _LINES else {}
        for rank in sorted(lines, key=lambda rank: (rank is None, rank)) if not points else ():
            points[f"rank {rank}"] = [(float(first), cell.mean) for first, cell in lines[rank]]
        chart = self._over_steps([x for line in points.values() for x, _ in line], height=260)
        for (name, line), colour in zip(points.items(), colours.LINES, strict=False):
            x, y = [first for first, _ in line], [mean for _, mean in line]
            self._line(chart, name, x, y, colour, self.STEP)
        legend = list(zip(points, colours.LINES, strict=False))
        self._mark(chart, key)
        return Drawing(title, hint, self._finished(chart, _SECONDS, from_zero=True), legend, key)

    def timeline(self, title: str, hint: str, timeline: Timeline) -> Drawing:
        """Draw the spans of one trace as bars over time in s."""
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
                "fill": [colours.colour_of(bar.kind) for bar in bars],
                "line": [colours.FAILED if bar.error else colours.colour_of(bar.kind) for bar in bars],
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
        return Drawing(title, hint, chart, [(kind, colours.colour_of(kind)) for kind in kinds])

    def shares(self, title: str, parts: Sequence[tuple[str, float, str]]) -> Drawing:
        """Draw one bar of parts beside each other, given as (name, seconds, colour)."""
        ends = list(itertools.accumulate(seconds for _, seconds, _ in parts))
        source = ColumnDataSource(
            {
                "left": [end - seconds for end, (_, seconds, _) in zip(ends, parts, strict=True)],
                "right": ends,
                "name": [name for name, _, _ in parts],
                "seconds": [seconds for _, seconds, _ in parts],
                "fill": [colour for _, _, colour in parts],
            }
        )
        chart = self._plain(_SECONDS, 90)
        bar = chart.hbar(y=0, left="left", right="right", height=1, source=source, fill_color="fill", line_color="fill")
        chart.add_tools(HoverTool(renderers=[bar], tooltips=[("part", "@name"), ("took", _seconds("seconds"))]))
        chart.x_range, chart.y_range = Range1d(0, ends[-1]), Range1d(-0.5, 0.5)
        chart.yaxis.visible, chart.ygrid.grid_line_color = False, None
        self._tools(chart)
        return Drawing(title, "", chart, [(name, colour) for name, _, colour in parts])

    def close(self) -> None:
        """Set the shared range once all charts are known."""
        if self._seen:
            low, high = min(self._seen), max(self._seen)
            self._steps.start, self._steps.end = low, high
            self._steps.reset_start, self._steps.reset_end = low, high
            self._steps.bounds = (low, high)

    def _over_steps(self, x: list[float], height: int, bin_width: int = 1, scale: str = "linear") -> figure:
        if x:
            self._seen += [min(x) - bin_width / 2, max(x) + bin_width / 2]
        chart = self._plain(self.STEP, height, scale)
        chart.x_range = self._steps
        chart.add_tools(CrosshairTool(dimensions="height", overlay=self._crosshair))
        chart.xaxis.ticker.min_interval = 1
        return chart

    def _plain(self, x_label: str, height: int, scale: str = "linear") -> figure:
        return figure(height=height, sizing_mode="stretch_width", tools=[], x_axis_label=x_label, y_axis_type=scale)

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


def _spans_magnitudes(curves: list[Curve]) -> bool:
    """Return whether a linear scale would show most values as a flat line at zero."""
    values = [value for curve in curves for value in curve.y]
    positive = sorted(value for value in values if value > 0)
    if len(positive) < _FEWEST_FOR_LOGARITHM or min(values) < 0 or 2 * len(positive) < len(values):
        return False
    return positive[-1] >= _MAGNITUDES * positive[len(positive) // 2]


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
