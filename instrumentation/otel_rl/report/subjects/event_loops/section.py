"""The table of functions that blocked an event loop, in the section on memory and pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.subjects.event_loops.aggregate import EventLoopBlocks

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected


def blocked(collected: Collected, _charts: Charts) -> list[PageBlock]:
    """Return the table and how many blocks are not in it; nothing where no loop was blocked."""
    table = _table(collected)
    if not table.rows:
        return []
    number, seconds = collected[EventLoopBlocks].untold
    left = f"{human.amount(number, 'further block')}, {human.duration(seconds)}, have no event." if number else ""
    return [PageBlock("Functions that blocked an event loop", left, table)]


def _table(collected: Collected) -> Table:
    table = Table(
        ["Function", ">Blocks", ">Took", ">Longest", "While it", ">Rollouts", ">Model calls", ">First step", "Where"],
        shown=8,
    )
    for one in collected[EventLoopBlocks].functions():
        times = [number_cell(one.number), seconds_cell(one.seconds), seconds_cell(one.longest), Value(one.state)]
        first = number_cell(min(one.steps, default=None))
        numbers = [number_cell(one.rollouts), number_cell(one.model_calls), first]
        table.rows.append([Value(one.place), *times, *numbers, Value(human.listed(sorted(one.who)))])
    return table
