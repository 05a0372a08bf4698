"""Charts of the state timeline: what is drawn of the lanes is chosen in the browser, by ``state_timeline.js``.

Its figures are found by the names of their glyphs, which begin with ``states-``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core import colours
from otel_rl.report.core.plots import Hover, Plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_rl.report.core.plots import Columns

#: Lanes that are drawn at once.
MOST = 32
TIME = "time since the first record"
_ROW, _AROUND = 22, 60
_TOOLTIPS = [("lane", "@lane"), ("state", "@what"), ("took", "@took"), ("step", "@step")]
_COLUMNS = ("row", "left", "right", "lane", "what", "took", "step")
_HATCH: dict[str, Any] = {
    "hatch_pattern": "/",
    "hatch_color": colours.HATCH,
    "hatch_alpha": 0.75,
    "hatch_weight": 1,
    "hatch_scale": 7,
}
_BAND = "#2f7ed8"


def lanes(name: str, rows: Sequence[str], seconds: float, packed: str = "") -> Plot:
    """Return a chart of lanes without stretches; ``packed`` is what the script draws of all charts of lanes."""
    plot = Plot(
        _ROW * max(len(rows), 2) + _AROUND,
        TIME,
        rows=rows,
        x_range=(0, seconds),
        y_range=(-0.6, len(rows) - 0.4),
    )
    if packed:
        plot.sources.append({"packed": [packed]})
        plot.add("scatter", {}, x=0, y=0, size=0, alpha=0, name="states-packed")
    fields = {"y": "row", "left": "left", "right": "right"}
    look: dict[str, Any] = {"height": 0.76, "line_width": 0}
    plot.sources.append({column: [] for column in (*_COLUMNS, "fill", "strength")})
    work = plot.add(
        "hbar", {**fields, "fill_color": "fill", "fill_alpha": "strength"}, name=f"states-{name}-work", **look
    )
    plot.sources.append({column: [] for column in _COLUMNS})
    waiting: dict[str, Any] = {"fill_color": colours.WAITING, **_HATCH}
    waits = plot.add("hbar", fields, name=f"states-{name}-waits", **look, **waiting)
    plot.sources.append({"x": []})
    mark: dict[str, Any] = {
        "line_color": colours.BY_KIND["weight_sync"],
        "line_width": 1,
        "line_alpha": 0.8,
        "line_dash": "dotted",
    }
    ends: dict[str, Any] = {"bottom": -1, "top": MOST, "width": 0, "fill_color": None}
    plot.add("vbar", {"x": "x"}, name=f"states-{name}-syncs", **ends, **mark)
    plot.hovers += [Hover(glyph, _TOOLTIPS, follows=True) for glyph in (work, waits)]
    return plot


def shares(
    x: Sequence[float], rows: Sequence[tuple[str, str, bool]], table: Sequence[Sequence[float]], seconds: float
) -> Plot:
    """Return the share of the ranks in each state over time, in percent; of a row: name, colour, whether it waits."""
    plot = Plot(220, TIME, "% of the ranks", from_zero=True, x_range=(0, seconds), y_range=(0, 100))
    below = [0.0] * len(x)
    columns: Columns = {"x": list(x), "top": [100.0] * len(x)}
    for place, values in enumerate(table):
        above = [low + value for low, value in zip(below, values, strict=True)]
        columns |= {f"low{place}": below, f"high{place}": above, f"share{place}": [round(value, 1) for value in values]}
        below = above
    plot.sources.append(columns)
    for place, (_, colour, waits) in enumerate(rows):
        look: dict[str, Any] = {"fill_color": colours.WAITING, **_HATCH} if waits else {"fill_color": colour}
        fields = {"x": "x", "y1": f"low{place}", "y2": f"high{place}"}
        plot.add("varea", fields, name=f"states-shares-{place}", **look)
    width = seconds / max(len(x), 1)
    target = plot.add("vbar", {"x": "x", "top": "top"}, width=width, alpha=0, line_alpha=0)
    tooltips = [(name, f"@share{place} %") for place, (name, _, _) in reversed(list(enumerate(rows)))]
    plot.hovers.append(Hover(target, tooltips, follows=True))
    return plot


def own_work(step: str, x: Sequence[int], quantiles: Sequence[Sequence[float]], unit: tuple[float, str]) -> Plot:
    """Return the own work of the ranks over the steps.

    Args:
        step: label of the axis.
        x: steps.
        quantiles: smallest, tenth, half, ninth tenth and largest of all ranks, in s.
        unit: factor for a second, and its name.
    """
    factor, name = unit
    plot = Plot(220, step, name, over_steps=True, from_zero=True)
    keys = ("least", "low", "median", "high", "most")
    columns: Columns = {"x": list(x)}
    columns |= {key: [value * factor for value in values] for key, values in zip(keys, quantiles, strict=True)}
    plot.sources.append(columns)
    plot.add("varea", {"x": "x", "y1": "low", "y2": "high"}, fill_alpha=0.25, color=_BAND)
    for key in ("least", "most"):
        plot.add("line", {"x": "x", "y": key}, line_width=1, line_dash="dotted", color=_BAND)
    line = plot.add("line", {"x": "x", "y": "median"}, line_width=2, color=_BAND)
    tooltips = [(words, f"@{key}{{0.[000]}} {name}") for key, words in zip(keys, _QUANTILES, strict=True)]
    plot.hovers.append(Hover(line, [(step, "@x{0}"), *reversed(tooltips)], mode="vline"))
    return plot


_QUANTILES = ("least", "p10", "median", "p90", "most")
