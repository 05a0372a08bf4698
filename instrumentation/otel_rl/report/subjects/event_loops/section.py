"""The table of functions that blocked an event loop, in the section on memory and pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.subjects.event_loops import blocks

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected


def blocked(collected: Collected, _charts: Charts) -> list[PageBlock]:
    """Return the table and how many blocks are not in it; nothing where no loop was blocked."""
    table = _table(collected)
    if not table.rows:
        return []
    number, seconds = blocks.without_event(collected)
    left = f"{human.amount(number, 'further block')}, {human.duration(seconds)}, have no event." if number else ""
    return [PageBlock("Functions that blocked an event loop", left, table)]


def _table(collected: Collected) -> Table:
    table = Table(
        ["Function", ">Blocks", ">Took", ">Longest", "While it", ">Rollouts", ">Model calls", ">First step", "Where"],
        shown=8,
    )
    for function in blocks.functions(collected):
        times = [
            number_cell(function.number),
            seconds_cell(function.seconds),
            seconds_cell(function.longest),
            Value(function.state),
        ]
        first = number_cell(min(function.steps, default=None))
        numbers = [number_cell(function.rollouts), number_cell(function.model_calls), first]
        table.rows.append([Value(function.place), *times, *numbers, Value(human.listed(sorted(function.who)))])
    return table
