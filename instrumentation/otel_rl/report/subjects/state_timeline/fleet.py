"""An overview of more ranks than are drawn: their share in each state over time, and their own work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from otel_rl.report.core import axes, colours, state_charts
from otel_rl.report.core.blocks import PageBlock
from otel_rl.report.subjects.state_timeline import timeline as timelines
from otel_rl.report.subjects.state_timeline.states import STATES, WAITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.state_timeline.timeline import StateTimeline

_POINTS = 300
_FEWEST_STEPS = 3
_QUANTILES = (0, 0.1, 0.5, 0.9, 1)


def blocks(collected: Collected, charts: Charts, seconds: float) -> list[PageBlock]:
    """Return both charts; the second one where three steps are known."""
    timeline = timelines.of_run(collected)
    x, table = shares(timeline)
    working = [place for place in range(len(STATES)) if place not in WAITS and table[place].any()]
    rows = [(STATES[place].name, STATES[place].colour, False) for place in working]
    values = [table[place].tolist() for place in working]
    waiting = table[list(WAITS)].sum(axis=0)
    if waiting.any():
        rows.append(("waiting", colours.WAITING, True))
        values.append(waiting.tolist())
    plot = state_charts.shares(x, rows, values, seconds)
    legend = [(name, colour) for name, colour, _ in rows]
    title = f"All {len(timeline.ranks)} ranks: share in each state"
    drawings = [charts.of_plot(title, "empty: not recorded", plot, legend, "states-shares")]
    steps, quantiles = own_work(collected)
    if len(steps) >= _FEWEST_STEPS:
        axis = axes.SECONDS.axis(quantiles[-1])
        plot = state_charts.own_work(charts.STEP, steps, quantiles, (axis.factor, axis.label))
        hint = "step time minus collectives; line: median, band: p10 to p90, dotted: least and most"
        drawings.append(charts.of_plot("Own work of the ranks", hint, plot, [], "states-own-work"))
    return [PageBlock(charts=[drawing], anchor=f"blocks-of-{drawing.key}") for drawing in drawings]


def shares(timeline: StateTimeline) -> tuple[list[float], NDArray[np.float64]]:
    """Return the middles of bins in s since the first record, and the percentage of the ranks by state in each."""
    bins, lanes = timeline.bins, timeline.ranks
    together = -(-bins.number // _POINTS)
    padding = -bins.number % together
    table = np.pad(timeline.of_ranks, ((0, 0), (0, padding))).reshape(len(STATES), -1, together).sum(axis=2)
    width = bins.width * together / 1e9
    begin = (bins.start - timeline.start) / 1e9
    # The last bin, and the first one, hold less than their width.
    length = np.full(table.shape[1], width)
    length[0] += min(begin, 0.0)
    length[-1] = max(min(width, (timeline.end - timeline.start) / 1e9 - begin - width * (len(length) - 1)), 1e-9)
    middles = [max(begin, 0.0) if not place else begin + (place + 0.5) * width for place in range(len(length))]
    return middles, np.minimum(100 * table / (length * len(lanes)), 100)


def own_work(collected: Collected) -> tuple[list[int], list[list[float]]]:
    """Return steps, and of the own work of the ranks in each the quantiles, in s."""
    of_step: dict[int, list[float]] = {}
    for rank, line in collected.steps.own.items():
        if rank is not None:
            for step, mean in zip(line.x, line.means, strict=True):
                of_step.setdefault(step, []).append(mean)
    steps = sorted(of_step)
    table = [np.quantile(of_step[step], _QUANTILES).tolist() for step in steps]
    return steps, [list(column) for column in zip(*table, strict=True)]
