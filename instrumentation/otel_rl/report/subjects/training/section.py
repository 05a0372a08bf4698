"""The section on the values that the trainer logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value
from otel_rl.report.subjects.training import program_gauges, program_kinds, scalars
from otel_rl.report.subjects.training.program_gauges import MOST_SETS
from otel_rl.training.key_categories import CATEGORIES, OTHER, category_of

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.curves import Curve
    from otel_rl.report.subjects.training.program_kinds import Panel

#: Points of a curve; fewer are a row of a table.
_FEWEST = 3


def build(collected: Collected, charts: Charts) -> Section:
    """Return a chart for each panel, and everything else folded."""
    logged = scalars.of_run(collected)
    kind = program_kinds.kind_of(collected, logged.keys)
    filler = "Curves come from what a trainer or the program logs, to a tracker for one, or from otel_rl.metric()."
    section = Section("training", "Training curves", filler)
    panels = logged.panels(kind)
    by_counts = [(panel, _by_counts(curves)) for panel, curves in panels]
    drawn = [
        (panel, kept) for panel, parts in by_counts if (kept := [part for part in parts if _is_drawn(part, charts)])
    ]
    if panels:
        section.lead = "As it was logged. Zoom by dragging; all charts over steps follow."
        own = next((curve.counts for _, curves in panels for curve in curves if curve.counts != charts.STEP), "")
        if own:
            section.lead += f" Those by {own} go by the numbers of the program's own log calls, not by guessed steps."
        if logged.over_time:
            section.lead = "From gauges over time, a point for each export: no log record has these values."
    if drawn:
        figures = [
            charts.curves(_title(panel, curves, parts), panel.hint, curves)
            for panel, parts in drawn
            for curves in parts
        ]
        section.blocks.append(PageBlock(charts=figures))
    said = [(panel, part) for panel, parts in by_counts for part in parts if not _is_drawn(part, charts)]
    if said:
        section.blocks.append(PageBlock(table=_few_points(said)))
    section.blocks += _others("Everything else that was logged", logged.rest(kind), charts)
    section.blocks += _others("Values recorded over time", logged.sampled(kind), charts)
    section.blocks += _gauges("Gauges of the program", collected, charts)
    if logged.keys_left_out:
        left_out = human.listed(sorted(logged.keys_left_out))
        section.blocks.append(PageBlock(note=f"More keys were logged than fit on a page; left out: {left_out}."))
    if logged.not_finite:
        said_of = ", ".join(f"{key} ({number})" for key, number in sorted(logged.not_finite.items()))
        section.blocks.append(PageBlock(note=f"Values that were not finite and are not drawn: {said_of}."))
    return section


def _by_counts(curves: list[Curve]) -> list[list[Curve]]:
    """Return curves apart that have no axis in common."""
    parts: dict[str, list[Curve]] = {}
    for curve in curves:
        parts.setdefault(curve.counts, []).append(curve)
    return list(parts.values())


def _title(panel: Panel, curves: list[Curve], parts: list[list[Curve]]) -> str:
    return f"{panel.title} by {curves[0].counts}" if len(parts) > 1 else panel.title


def _is_drawn(curves: list[Curve], charts: Charts) -> bool:
    """Return whether a chart says more than a row: where values change, or a finding points at it."""
    has_points = any(len(curve.x) >= _FEWEST for curve in curves)
    changes = any(len(set(curve.y)) > 1 for curve in curves)
    return has_points and (changes or any(charts.is_marked(curve.name) for curve in curves))


def _few_points(panels: list[tuple[Panel, list[Curve]]]) -> Table:
    """Return values that need no chart."""
    table = Table(["Value", "Key", "As logged", "What to look for"])
    for panel, curves in panels:
        names: dict[str, list[str]] = {}
        for curve in curves:
            names.setdefault(_as_logged(curve), []).append(curve.name)
        for said, same in names.items():
            table.rows.append([Value(panel.title), Value(", ".join(same)), Value(said), Value(panel.hint)])
    return table


def _as_logged(curve: Curve) -> str:
    places = [human.duration(x) if curve.over_time else f"{curve.counts} {human.number(x)}" for x in curve.x]
    if curve.number == 1:
        return f"{human.number(curve.y[0])}, once, at {places[0]}"
    if len(set(curve.y)) == 1:
        return f"{human.number(curve.y[0])} throughout, {places[0]} to {places[-1]}"
    return ", ".join(f"{human.number(y)} at {place}" for y, place in zip(curve.y, places, strict=True))


def _by_category(title: str, shown: list[tuple[str, str, list[Curve]]], charts: Charts) -> list[PageBlock]:
    """Return a folded block for each group of keys: of each the title of its chart, a hint, and its lines."""
    groups: dict[str, list[tuple[str, str, list[Curve]]]] = {category: [] for category in (*CATEGORIES, OTHER)}
    for chart in shown[: charts.most_of_rest]:
        groups[category_of(chart[0])].append(chart)
    blocks = [
        PageBlock(
            f"{title}: {category} ({len(group)})",
            charts=[charts.curves(name, hint, curves, height=150) for name, hint, curves in group],
            folded=True,
        )
        for category, group in groups.items()
        if group
    ]
    left_out = [name for name, _, _ in shown[charts.most_of_rest :]]
    if left_out:
        blocks.append(PageBlock(note=f"Not drawn: {human.listed(left_out)}."))
    return blocks


def _gauges(title: str, collected: Collected, charts: Charts) -> list[PageBlock]:
    """Return a chart for each name, folded, with a line for each set of attributes."""
    drawn, few = [], []
    for name, curves, more in program_gauges.drawn(collected):
        hint = f"the first {MOST_SETS} of {MOST_SETS + more} sets of attributes" if more else ""
        only = curves[0].name if len(curves) == 1 and curves[0].name != name else ""
        if any(len(curve.x) >= _FEWEST for curve in curves):
            drawn.append((f"{name} {only}".rstrip(), hint, curves))
        else:
            said = ", ".join(
                f"{'' if curve.name == name else curve.name} {_as_logged(curve)}".lstrip() for curve in curves
            )
            few.append(f"{name} {said}" + (f" ({hint})" if hint else ""))
    blocks = _by_category(title, drawn, charts)
    if few:
        blocks.append(PageBlock(f"{title}: one or two points ({len(few)})", "; ".join(few), folded=True))
    if left_out := program_gauges.names_left_out(collected):
        blocks.append(PageBlock(note=f"Gauges not drawn: {human.listed(left_out)}."))
    return blocks


def _others(title: str, parts: tuple[list[Curve], list[Curve]], charts: Charts) -> list[PageBlock]:
    curves, constant = parts
    once = [curve for curve in constant if curve.number == 1]
    throughout = [curve for curve in constant if curve.number > 1]
    blocks = []
    few = [curve for curve in curves if len(curve.x) < _FEWEST]
    curves = [curve for curve in curves if len(curve.x) >= _FEWEST]
    blocks += _by_category(title, [(curve.name, "", [curve]) for curve in curves], charts)
    for words, same in (("one value throughout", throughout), ("one point only", once)):
        if same:
            said = ", ".join(f"{curve.name} {human.number(curve.y[0])}" for curve in same)
            blocks.append(PageBlock(f"{title}: {words} ({len(same)})", said, folded=True))
    if few:
        said = "; ".join(f"{curve.name} {_as_logged(curve)}" for curve in few)
        blocks.append(PageBlock(f"{title}: two points ({len(few)})", said, folded=True))
    return blocks
