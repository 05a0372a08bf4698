"""The charts of the page: their values and what is drawn of them; Bokeh's models only where they are asked for."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import axes, colours, curves, human
from otel_rl.report.core.curves import MOST_POINTS, Curve
from otel_rl.report.core.plots import Hover, Plot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bokeh.models import Model

    from otel_rl.report.core.axes import Quantity
    from otel_rl.report.core.figures import Figures
    from otel_rl.report.core.lines import Line
    from otel_rl.report.core.plots import Columns, Ends
    from otel_rl.report.core.steps import Steps
    from otel_rl.report.core.timeline import Timeline

#: Charts up to which a page that is written once draws what no panel shows: each takes 70 ms to make.
MOST_OF_REST = 60
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


@dataclass(frozen=True)
class Drawing:
    """A chart with its title, one line on how to read it, and its legend (in HTML, where long names can wrap)."""

    title: str
    hint: str
    plot: Plot = field(repr=False)
    legend: Legend
    #: What links to the chart name it by.
    key: str
    figures: Callable[[], Figures] = field(repr=False)

    @cached_property
    def model(self) -> Model:
        """Bokeh's models of the chart, made when they are first asked for."""
        return self.figures().model(self.plot)


class Charts:
    """Makes the charts of one page."""

    #: Label of every axis that counts iterations.
    STEP = curves.STEP
    TIME = "time (s)"

    def __init__(self, marks: Mapping[str, Sequence[int]] | None = None, most_of_rest: int = MOST_OF_REST) -> None:
        #: Charts up to which values that no panel shows are drawn.
        self.most_of_rest = most_of_rest
        #: Steps at which something began, by the key of the chart.
        self._marks = marks or {}
        #: Key of a chart, or of a trainer's value -> name of the figure that shows it.
        self.figures: dict[str, str] = {}
        #: The first and the last step of all charts over steps, once all are known.
        self.steps: Ends | None = None
        self._models: Figures | None = None
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
        plot = self._over_steps(middles, 300, axis.label, bin_width=width, from_zero=True)
        plot.sources.append(columns)
        names, fills = list(columns)[: len(phases)], [colours.colour_of(phase) for phase in phases]
        if len(bins) <= _BARS:
            plot.add("vbar_stack", {"x": "x"}, stacked=names, width=width * 0.86, color=fills, line_width=0)
        else:
            plot.add("varea_stack", {"x": "x"}, stacked=names, color=fills)
        target = plot.add("vbar", {"x": "x", "top": "total"}, width=width, alpha=0, line_alpha=0)
        tooltips = [(self.STEP, "@x{0}"), ("total", _tooltip("total", axis.label))]
        tooltips += [
            (phase, _tooltip(name, axis.label)) for name, phase in zip(reversed(names), reversed(phases), strict=True)
        ]
        plot.hovers.append(Hover(target, tooltips, follows=True))
        hint = self._mark(plot, "phase-seconds")
        means = f"mean of {width} steps" if width > 1 else ""
        return self._drawing(title, [means, hint], plot, list(zip(phases, fills, strict=True)), "phase-seconds")

    def over_time(self, key: str, title: str, hint: str, lines: dict[str, Line], unit: str) -> Drawing:
        """Draw means of several series over the steps, or over time; of many series those with the largest sum.

        ``hint`` says what a point over the steps is.
        """
        by_step = 2 * sum(line.by_step for line in lines.values()) >= len(lines)
        same = {name: line for name, line in lines.items() if line.by_step == by_step}
        ordered = sorted(same, key=lambda name: -same[name].total)
        start = 0 if by_step else min(line.x[0] for line in same.values())
        drawn = [curves.of_line(name, same[name], start) for name in sorted(ordered[:_LINES])]
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
        label = quantity.label(axis)
        plot = (
            self._over_steps(every_x, height, label, from_zero=True)
            if over_steps
            else Plot(height, self.TIME, label, from_zero=True)
        )
        has_band = len(smoothed) <= _BANDS
        for line, colour in zip(smoothed, colours.LINES, strict=False):
            _add_line(plot, line, colour, quantity, axis.factor, has_band=has_band)
        hints += sorted({line.said if has_band else line.said.partition(",")[0] for line in smoothed if line.said})[:1]
        if over_steps:
            hints.append(self._mark(plot, key))
        legend = [(line.name, colour) for line, colour in zip(smoothed, colours.LINES, strict=False)]
        return self._drawing(title, hints, plot, legend, key)

    def is_marked(self, key: str) -> bool:
        """Return whether something began that the chart of this key shows."""
        return bool(self._marks.get(key))

    def _mark(self, plot: Plot, *keys: str, first: float | None = None) -> str:
        """Draw where something began that this chart shows, from ``first`` on; return words for the lines."""
        for key in keys:
            self.figures.setdefault(key, key)
        first = min(self._seen, default=-math.inf) if first is None else first
        # What began with the first step has no step before it that a line could part it from.
        begun = sorted({step for key in keys for step in self._marks.get(key, ()) if step - 0.5 > first})
        plot.marks += [step - 0.5 for step in begun]
        return f"dashed: from {plot.x_label} {', '.join(map(str, begun))} on" if begun else ""

    def curves(
        self, title: str, hint: str, curves: list[Curve], *, x_label: str = "", height: int = 190,
        quantity: Quantity = axes.NUMBER,
    ) -> Drawing:  # fmt: skip
        """Draw lines of trainer values that count the same; only those over steps share the range of the steps."""
        key = f"values-{len(self.figures)}"
        smoothed = [curve.smoothed() for curve in curves]
        is_wide = _spans_magnitudes(smoothed)
        counts = self.TIME if curves[0].over_time else curves[0].counts
        x_label = x_label or counts
        over_steps = x_label == self.STEP
        axis = axes.Axis(1, "") if is_wide else quantity.axis(value for curve in smoothed for value in curve.y)
        label = quantity.label(axis)
        plot = self._over_steps(curves[0].x, height, label) if over_steps else Plot(height, x_label, label)
        plot.is_logarithmic = is_wide
        for curve, colour in zip(smoothed, colours.LINES, strict=False):
            _add_line(plot, curve, colour, quantity, axis.factor)
            self.figures.setdefault(curve.name, key)
        hints = [*sorted({curve.said for curve in smoothed if curve.said})[:1], hint]
        values = {value for curve in curves for value in curve.y}
        if is_wide:
            hints.append("logarithmic scale")
        elif len(values) == 1:
            plot.y_range = _around(values.pop() * axis.factor)
        if not curves[0].over_time:
            first = None if over_steps else min(x for curve in curves for x in curve.x)
            hints.append(self._mark(plot, *(curve.name for curve in curves), first=first))
        legend = [(curve.name, colour) for curve, colour in zip(curves, colours.LINES, strict=False)]
        return self._drawing(title, hints, plot, legend if len(curves) > 1 else [], key)

    def ranks(self, title: str, hint: str, lines: dict[Any, Line], key: str = "") -> Drawing:
        """Draw one line for each rank, in s; of many ranks the fastest, the median and the slowest of every step."""
        drawn = _extremes(lines) if len(lines) > _LINES else []
        for rank in sorted(lines, key=lambda rank: (rank is None, rank)) if not drawn else ():
            drawn.append(curves.of_line(f"rank {rank}", lines[rank]))
        return self._lines(key, title, [hint], drawn, axes.SECONDS, height=260)

    def timeline(self, title: str, hint: str, timeline: Timeline) -> Drawing:
        """Draw the spans of one trace as bars over time."""
        bars, rows = timeline.bars, len(timeline.rows)
        axis = axes.SECONDS.axis(bar.start + bar.seconds for bar in bars)
        plot = Plot(
            max(_ROW_HEIGHT * rows + 60, 130),
            f"time since the beginning ({axis.label})",
            rows=timeline.rows,
            y_range=(-0.6, rows - 0.4),
        )
        plot.sources.append(
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
        fields = {"y": "row", "left": "left", "right": "right"}
        fields |= {"fill_color": "fill", "line_color": "line", "line_width": "line_width"}
        target = plot.add("hbar", fields, height=0.72)
        tooltips = [("span", "@name"), ("took", "@took"), ("error", "@error")]
        plot.hovers.append(Hover(target, tooltips, follows=True))
        kinds = sorted({bar.kind for bar in bars}, key=colours.order)
        return self._drawing(title, [hint], plot, [(kind, colours.colour_of(kind)) for kind in kinds])

    def shares(self, title: str, parts: Sequence[tuple[str, float, str]]) -> Drawing:
        """Draw one bar of parts beside each other, given as (name, seconds, colour)."""
        ends = list(itertools.accumulate(seconds for _, seconds, _ in parts))
        axis = axes.SECONDS.axis(ends)
        plot = Plot(
            90,
            f"time since the process began ({axis.label})",
            has_y_axis=False,
            x_range=(0, ends[-1] * axis.factor),
            y_range=(-0.5, 0.5),
        )
        plot.sources.append(
            {
                "left": [(end - seconds) * axis.factor for end, (_, seconds, _) in zip(ends, parts, strict=True)],
                "right": [end * axis.factor for end in ends],
                "name": [name for name, _, _ in parts],
                "took": [human.duration(seconds) for _, seconds, _ in parts],
                "fill": [colour for _, _, colour in parts],
            }
        )
        fields = {"left": "left", "right": "right", "fill_color": "fill", "line_color": "fill"}
        bar = plot.add("hbar", fields, y=0, height=1)
        plot.hovers.append(Hover(bar, [("part", "@name"), ("took", "@took")]))
        return self._drawing(title, [], plot, [(name, colour) for name, _, colour in parts])

    def of_plot(self, title: str, hint: str, plot: Plot, legend: Legend, key: str) -> Drawing:
        """Draw what has been described elsewhere."""
        return self._drawing(title, [hint], plot, legend, key)

    def close(self) -> None:
        """Set the shared range once all charts are known."""
        if self._seen:
            self.steps = min(self._seen), max(self._seen)

    def _drawing(self, title: str, hints: list[str], plot: Plot, legend: Legend, key: str = "") -> Drawing:
        return Drawing(title, "; ".join(filter(None, hints)), plot, legend, key, self._figures)

    def _figures(self) -> Figures:
        """Return what makes the models of this page; Bokeh is imported for nothing else."""
        from otel_rl.report.core.figures import Figures  # noqa: PLC0415 - heavy

        if self._models is None:
            self._models = Figures()
        if self.steps is not None:
            self._models.show_steps(self.steps)
        return self._models

    def _over_steps(
        self, x: list[float], height: int, y_label: str, *, bin_width: int = 1, from_zero: bool = False
    ) -> Plot:
        if x:
            self._seen += [min(x) - bin_width / 2, max(x) + bin_width / 2]
        return Plot(height, self.STEP, y_label, over_steps=True, from_zero=from_zero)


def _add_line(
    plot: Plot, curve: Curve, colour: str, quantity: Quantity, factor: float, *, has_band: bool = True
) -> None:
    def drawn(values: list[float]) -> list[float]:
        # A logarithm has no zero: such points are gaps.
        return [math.nan if plot.is_logarithmic and value <= 0 else value * factor for value in values]

    columns: Columns = {"x": curve.x, "y": drawn(curve.y), "shown": [quantity.words(value) for value in curve.y]}
    if curve.said and has_band:
        columns |= {"low": drawn(curve.low), "high": drawn(curve.high)}
    plot.sources.append(columns)
    if "low" in columns:
        plot.add("varea", {"x": "x", "y1": "low", "y2": "high"}, fill_alpha=_BAND_ALPHA, color=colour)
    line = plot.add("line", {"x": "x", "y": "y"}, line_width=2, color=colour)
    if len(curve.x) <= _MARKERS:
        plot.add("scatter", {"x": "x", "y": "y"}, size=5, color=colour)
    # The name is data of the run: as the first column of the tooltip it is shown as text, never as markup.
    plot.hovers.append(Hover(line, [(curve.name, "@shown"), (plot.x_label, "@x{0}")], mode="vline"))


def _around(value: float) -> Ends:
    # Left to itself Bokeh shows -1 to 1 around one value: a small one would look like zero.
    return (min(2 * value, 0.0), max(2 * value, 0.0)) if value else (-1, 1)


def _spans_magnitudes(curves: list[Curve]) -> bool:
    """Return whether a linear scale would show most values as a flat line at zero."""
    values = [value for curve in curves for value in curve.y]
    positive = sorted(value for value in values if value > 0)
    if len(positive) < _FEWEST_FOR_LOGARITHM or min(values) < 0 or 2 * len(positive) < len(values):
        return False
    return positive[-1] >= _MAGNITUDES * positive[len(positive) // 2]


def _extremes(lines: dict[Any, Line]) -> list[Curve]:
    of_step: dict[int, list[float]] = {}
    for line in lines.values():
        for step, mean in zip(line.x, line.means, strict=True):
            of_step.setdefault(step, []).append(mean)
    ordered = [sorted(values) for _, values in sorted(of_step.items())]
    x = [float(step) for step in sorted(of_step)]
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


def _tooltip(column: str, unit: str) -> str:
    return f"@{column}{{0.[000]}} {unit}"
