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
    FixedTicker,
    HoverTool,
    Range1d,
    ResetTool,
    SaveTool,
)
from bokeh.models import Span as CrosshairLine
from bokeh.plotting import figure

from otel_rl.report.core import axes, colours, curves, human
from otel_rl.report.core.curves import MOST_POINTS, Curve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bokeh.models import Model

    from otel_rl.report.core.axes import Quantity
    from otel_rl.report.core.over_time import Line
    from otel_rl.report.core.statistics import Cell
    from otel_rl.report.core.steps import Steps
    from otel_rl.report.core.timeline import Timeline

_BARS = 150
_LINES = 8
_MARKERS = 60
#: Lines of a chart up to which each has its band.
_BANDS = 3
_BAND_ALPHA = 0.22
_ROW_HEIGHT = 22
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
    STEP = curves.STEP
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
        """Draw stacked step time by phase: mean over ranks, and over neighbouring steps of a long run."""
        bins, table, width = steps.mean_phases(MOST_POINTS)
        phases = sorted((phase for phase in table if any(table[phase])), key=colours.order)
        middles = [first + (width - 1) / 2 for first in bins]
        totals = [sum(values) for values in zip(*table.values(), strict=True)]
        axis = axes.SECONDS.axis(totals)
        columns: dict[str, Any] = {
            f"p{index}": _scaled(table[phase], axis.factor) for index, phase in enumerate(phases)
        }
        columns |= {"x": middles, "total": _scaled(totals, axis.factor)}
        source = ColumnDataSource(columns)
        chart = self._over_steps(middles, height=300, bin_width=width)
        names, fills = list(columns)[: len(phases)], [colours.colour_of(phase) for phase in phases]
        if len(bins) <= _BARS:
            chart.vbar_stack(names, x="x", width=width * 0.86, color=fills, source=source, line_width=0)
        else:
            chart.varea_stack(names, x="x", color=fills, source=source)
        target = chart.vbar(x="x", top="total", width=width, alpha=0, line_alpha=0, source=source)
        tooltips = [(self.STEP, "@x{0}"), ("total", _tooltip("total", axis.label))]
        tooltips += [
            (phase, _tooltip(name, axis.label)) for name, phase in zip(reversed(names), reversed(phases), strict=True)
        ]
        chart.add_tools(HoverTool(renderers=[target], tooltips=tooltips, point_policy="follow_mouse"))
        legend = list(zip(phases, fills, strict=True))
        hint = self._mark(chart, "phase-seconds")
        means = f"mean of {width} steps" if width > 1 else ""
        finished = self._finished(chart, axis.label, from_zero=True)
        return Drawing(title, _joined(means, hint), finished, legend, "phase-seconds")

    def over_time(self, key: str, title: str, hint: str, lines: dict[str, Line], unit: str) -> Drawing:
        """Draw means of several series over the steps, or over time; of many series those with the largest sum.

        ``hint`` says what a point over the steps is.
        """
        by_step = 2 * sum(line.by_step for line in lines.values()) >= len(lines)
        same = {name: line for name, line in lines.items() if line.by_step == by_step}
        ordered = sorted(same, key=lambda name: -sum(cell.total for cell in same[name].cells))
        start = 0 if by_step else min(line.x[0] for line in same.values())
        drawn = [
            curves.of_cells(name, line.x, line.cells, start, width=line.width if by_step else 1, over_time=not by_step)
            for name, line in sorted((name, same[name]) for name in ordered[:_LINES])
        ]
        hints = [hint if by_step else f"by time: mean of {_seconds_of(same)}"]
        if len(ordered) > len(drawn):
            hints.append(f"the {len(drawn)} largest of {len(ordered)}")
        return self._lines(key, title, hints, drawn, axes.of_unit(unit), over_steps=by_step)

    def _lines(
        self, key: str, title: str, hints: list[str], lines: list[Curve], quantity: Quantity, *,
        over_steps: bool = True, height: int = 190,
    ) -> Drawing:  # fmt: skip
        """Draw several lines of one quantity from zero on."""
        smoothed = [line.smoothed() for line in lines]
        axis = quantity.axis(value for line in smoothed for value in line.high or line.y)
        every_x = [x for line in lines for x in line.x]
        chart = self._over_steps(every_x, height) if over_steps else self._plain(self.TIME, height)
        has_band = len(smoothed) <= _BANDS
        for line, colour in zip(smoothed, colours.LINES, strict=False):
            self._line(chart, line, colour, quantity, axis.factor, has_band=has_band)
        hints += sorted({line.said if has_band else line.said.partition(",")[0] for line in smoothed if line.said})[:1]
        if over_steps:
            hints.append(self._mark(chart, key))
        legend = [(line.name, colour) for line, colour in zip(smoothed, colours.LINES, strict=False)]
        return Drawing(title, _joined(*hints), self._finished(chart, quantity.label(axis), from_zero=True), legend, key)

    def is_marked(self, key: str) -> bool:
        """Return whether something began that the chart of this key shows."""
        return bool(self._marks.get(key))

    def _mark(self, chart: figure, *keys: str, first: float | None = None) -> str:
        """Draw where something began that this chart shows, from ``first`` on; return words for the lines."""
        for key in keys:
            self.figures.setdefault(key, key)
        first = min(self._seen, default=-math.inf) if first is None else first
        # What began with the first step has no step before it that a line could part it from.
        begun = sorted({step for key in keys for step in self._marks.get(key, ()) if step - 0.5 > first})
        for step in begun:
            line = {"dimension": "height", "line_color": colours.FAILED, "line_dash": "dashed", "line_width": 1.5}
            chart.add_layout(CrosshairLine(location=step - 0.5, **line))
        return f"dashed: from {chart.xaxis[0].axis_label} {', '.join(map(str, begun))} on" if begun else ""

    def curves(
        self, title: str, hint: str, curves: list[Curve], *, x_label: str = "", height: int = 190,
        quantity: Quantity = axes.NUMBER,
    ) -> Drawing:  # fmt: skip
        """Draw lines of trainer values that count the same; only those over steps share the range of the steps."""
        key = f"values-{len(self.figures)}"
        smoothed = [curve.smoothed() for curve in curves]
        is_wide = _spans_magnitudes(smoothed)
        scale = "log" if is_wide else "linear"
        counts = self.TIME if curves[0].over_time else curves[0].counts
        x_label = x_label or counts
        over_steps = x_label == self.STEP
        chart = (
            self._over_steps(curves[0].x, height, scale=scale) if over_steps else self._plain(x_label, height, scale)
        )
        axis = axes.Axis(1, "") if is_wide else quantity.axis(value for curve in smoothed for value in curve.y)
        for curve, colour in zip(smoothed, colours.LINES, strict=False):
            self._line(chart, curve, colour, quantity, axis.factor, is_logarithmic=is_wide)
            self.figures.setdefault(curve.name, key)
        hints = [*sorted({curve.said for curve in smoothed if curve.said})[:1], hint]
        values = {value for curve in curves for value in curve.y}
        if is_wide:
            hints.append("logarithmic scale")
        elif len(values) == 1:
            self._around_one(chart, values.pop() * axis.factor)
        if not curves[0].over_time:
            first = None if over_steps else min(x for curve in curves for x in curve.x)
            hints.append(self._mark(chart, *(curve.name for curve in curves), first=first))
        legend = [(curve.name, colour) for curve, colour in zip(curves, colours.LINES, strict=False)]
        finished = self._finished(chart, quantity.label(axis))
        return Drawing(title, _joined(*hints), finished, legend if len(curves) > 1 else [], key)

    @staticmethod
    def _around_one(chart: figure, value: float) -> None:
        # Left to itself Bokeh shows -1 to 1 around one value: a small one would look like zero.
        chart.y_range = Range1d(min(2 * value, 0.0), max(2 * value, 0.0)) if value else Range1d(-1, 1)

    def ranks(self, title: str, hint: str, lines: dict[Any, list[tuple[int, Cell]]], key: str = "") -> Drawing:
        """Draw one line for each rank, in s; of many ranks the fastest, the median and the slowest of every step."""
        drawn = _extremes(lines) if len(lines) > _LINES else []
        for rank in sorted(lines, key=lambda rank: (rank is None, rank)) if not drawn else ():
            x, cells = [first for first, _ in lines[rank]], [cell for _, cell in lines[rank]]
            drawn.append(curves.of_cells(f"rank {rank}", x, cells))
        return self._lines(key, title, [hint], drawn, axes.SECONDS, height=260)

    def timeline(self, title: str, hint: str, timeline: Timeline) -> Drawing:
        """Draw the spans of one trace as bars over time."""
        bars, rows = timeline.bars, len(timeline.rows)
        axis = axes.SECONDS.axis(bar.start + bar.seconds for bar in bars)
        chart = figure(
            height=max(_ROW_HEIGHT * rows + 60, 130),
            sizing_mode="stretch_width",
            y_range=Range1d(-0.6, rows - 0.4),
            tools=[],
            x_axis_label=f"time since the beginning ({axis.label})",
            output_backend="canvas",
        )
        self._name_rows(chart, timeline.rows)
        source = ColumnDataSource(
            {
                "row": [rows - 1 - bar.lane for bar in bars],
                "left": [bar.start * axis.factor for bar in bars],
                "right": [(bar.start + bar.seconds) * axis.factor for bar in bars],
                "took": [human.duration(bar.seconds) for bar in bars],
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
        tooltips = [("span", "@name"), ("took", "@took"), ("error", "@error")]
        chart.add_tools(HoverTool(renderers=[target], tooltips=tooltips, point_policy="follow_mouse"))
        self._tools(chart)
        kinds = sorted({bar.kind for bar in bars}, key=colours.order)
        return Drawing(title, hint, chart, [(kind, colours.colour_of(kind)) for kind in kinds])

    def shares(self, title: str, parts: Sequence[tuple[str, float, str]]) -> Drawing:
        """Draw one bar of parts beside each other, given as (name, seconds, colour)."""
        ends = list(itertools.accumulate(seconds for _, seconds, _ in parts))
        axis = axes.SECONDS.axis(ends)
        source = ColumnDataSource(
            {
                "left": [(end - seconds) * axis.factor for end, (_, seconds, _) in zip(ends, parts, strict=True)],
                "right": [end * axis.factor for end in ends],
                "name": [name for name, _, _ in parts],
                "took": [human.duration(seconds) for _, seconds, _ in parts],
                "fill": [colour for _, _, colour in parts],
            }
        )
        chart = self._plain(f"time since the process began ({axis.label})", 90)
        bar = chart.hbar(y=0, left="left", right="right", height=1, source=source, fill_color="fill", line_color="fill")
        chart.add_tools(HoverTool(renderers=[bar], tooltips=[("part", "@name"), ("took", "@took")]))
        chart.x_range, chart.y_range = Range1d(0, ends[-1] * axis.factor), Range1d(-0.5, 0.5)
        chart.yaxis.visible, chart.ygrid.grid_line_color = False, None
        self._tools(chart)
        return Drawing(title, "", chart, [(name, colour) for name, _, colour in parts])

    @staticmethod
    def _name_rows(chart: figure, rows: list[str]) -> None:
        """Put names beside the rows of bars: as numbers with labels, since two rows may have the same name."""
        places = list(range(len(rows)))
        chart.yaxis.ticker = FixedTicker(ticks=places)
        chart.yaxis.major_label_overrides = dict(zip(reversed(places), rows, strict=True))
        chart.ygrid.grid_line_color = None

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

    def _line(
        self, chart: figure, curve: Curve, colour: str, quantity: Quantity, factor: float, *,
        has_band: bool = True, is_logarithmic: bool = False,
    ) -> None:  # fmt: skip
        def drawn(values: list[float]) -> list[float]:
            # A logarithm has no zero: such points are gaps.
            return [math.nan if is_logarithmic and value <= 0 else value * factor for value in values]

        columns = {"x": curve.x, "y": drawn(curve.y), "shown": [quantity.words(value) for value in curve.y]}
        if curve.said and has_band:
            columns |= {"low": drawn(curve.low), "high": drawn(curve.high)}
        options: dict[str, Any] = {"source": ColumnDataSource(columns), "color": colour}
        if "low" in columns:
            chart.varea("x", "low", "high", fill_alpha=_BAND_ALPHA, **options)
        line = chart.line("x", "y", line_width=2, **options)
        if len(curve.x) <= _MARKERS:
            chart.scatter("x", "y", size=5, **options)
        # The name is data of the run: as the first column of the tooltip it is shown as text, never as markup.
        tooltips = [(curve.name, "@shown"), (chart.xaxis[0].axis_label, "@x{0}")]
        chart.add_tools(HoverTool(renderers=[line], mode="vline", tooltips=tooltips))

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


def _extremes(lines: dict[Any, list[tuple[int, Cell]]]) -> list[Curve]:
    in_bin: dict[int, list[float]] = {}
    for line in lines.values():
        for first, cell in line:
            in_bin.setdefault(first, []).append(cell.mean)
    ordered = [sorted(values) for _, values in sorted(in_bin.items())]
    x = [float(first) for first in sorted(in_bin)]
    return [
        Curve("slowest rank", x, [values[-1] for values in ordered], len(x)),
        Curve("median rank", x, [values[len(values) // 2] for values in ordered], len(x)),
        Curve("fastest rank", x, [values[0] for values in ordered], len(x)),
    ]


def _seconds_of(lines: dict[str, Line]) -> str:
    """Return the time that a point of lines over time stands for."""
    width = max(line.width for line in lines.values())
    return "each second" if width == 1 else f"{width} s"


def _scaled(values: list[float], factor: float) -> list[float]:
    return [value * factor for value in values]


def _joined(*hints: str) -> str:
    return "; ".join(filter(None, hints))


def _tooltip(column: str, unit: str) -> str:
    return f"@{column}{{0.[000]}} {unit}"
