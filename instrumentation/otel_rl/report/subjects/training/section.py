"""The section on the values that the trainer logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section, every_point
from otel_rl.report.subjects.training.aggregate import Scalars

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.curves import Curve

_SMALL_CHARTS = 60
_TIME = "time (s)"


def build(collected: Collected, charts: Charts) -> Section:
    """Return a chart for each panel, and everything else folded."""
    scalars = collected[Scalars]
    filler = "Curves come from what the trainer logs (a supported trainer's log calls), or from otel_rl.metric()."
    section = Section("training", "Training curves", filler)
    panels = [
        charts.curves(panel.title, panel.hint, curves, x_label=_TIME if curves[0].over_time else charts.STEP)
        for panel, curves in scalars.panels()
    ]
    if panels:
        section.blocks.append(PageBlock(charts=panels))
        section.lead = "As the trainer logged it. Zoom by dragging; all charts over steps follow."
        if scalars.over_time:
            section.lead = "From gauges over time, a point for each export: no log record has these values."
        section.lead += every_point(scalars.logged.width)
    section.blocks += _others("Everything else the trainer logged", scalars.rest(), charts, charts.STEP)
    section.blocks += _others("Values recorded over time", scalars.sampled(), charts, _TIME)
    if scalars.keys_left_out:
        left_out = human.listed(sorted(scalars.keys_left_out))
        section.blocks.append(PageBlock(note=f"More keys were logged than fit on a page; left out: {left_out}."))
    if scalars.not_finite:
        said = ", ".join(f"{key} ({number})" for key, number in sorted(scalars.not_finite.items()))
        section.blocks.append(PageBlock(note=f"Values that were not finite and are not drawn: {said}."))
    return section


def _others(title: str, parts: tuple[list[Curve], list[Curve]], charts: Charts, x_label: str) -> list[PageBlock]:
    curves, constant = parts
    once = [curve for curve in constant if curve.number == 1]
    throughout = [curve for curve in constant if curve.number > 1]
    blocks = []
    if curves:
        small = [
            charts.curves(curve.name, "", [curve], height=150, x_label=x_label) for curve in curves[:_SMALL_CHARTS]
        ]
        left_out = [curve.name for curve in curves[_SMALL_CHARTS:]]
        note = f"Not drawn: {human.listed(left_out)}." if left_out else ""
        blocks.append(PageBlock(f"{title} ({len(curves)})", note, charts=small, folded=True))
    for words, same in (("one value throughout", throughout), ("one point only", once)):
        if same:
            said = ", ".join(f"{curve.name} {human.number(curve.y[0])}" for curve in same)
            blocks.append(PageBlock(f"{title}: {words} ({len(same)})", said, folded=True))
    return blocks
