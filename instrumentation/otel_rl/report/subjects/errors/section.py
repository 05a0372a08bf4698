"""The section on errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value, number_cell
from otel_rl.report.subjects.errors.aggregate import Problems

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected


def build(collected: Collected, _charts: Charts) -> Section:
    """Return uncaught exceptions and groups of errors."""
    problems = collected[Problems]
    section = Section("errors", "Errors", "No error was recorded: no failed span, no log record of severity ERROR.")
    for exception in problems.exceptions:
        at = f", step {exception.iteration}" if exception.iteration is not None else ""
        title = f"{exception.who} died of {exception.kind}{at}"
        section.blocks.append(PageBlock(title, exception.message, text=exception.stacktrace, folded=True))
    table = _table(collected)
    if table.rows:
        left = problems.groups_left_out
        note = f"{left} further errors of other kinds are not listed." if left else ""
        section.blocks.append(PageBlock(note=note, table=table))
    return section


def _table(collected: Collected) -> Table:
    """Return errors that look alike, the most frequent first."""
    table = Table(["Where", "Error", "Message", ">Times", "First by", ">First at step"])
    for group in collected[Problems].table():
        first = [Value(group.who), number_cell(group.iteration)]
        error = Value(group.kind, tone="bad")
        table.rows.append([Value(group.where), error, Value(group.message), number_cell(group.number), *first])
    return table
