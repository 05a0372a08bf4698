"""The table of what a sync of the weights consists of, in the section on steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.cells import Table, Value, number_cell, quantile_cell, seconds_cell
from otel_rl.report.subjects.weight_syncs import syncs

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected


def stages_table(collected: Collected) -> Table:
    """Build the table of operations on engines: what a sync of the weights consists of."""
    table = Table(["Operation", ">Times", ">Together", ">Mean", ">p95", ">Longest", ">Failed", ">Weights"])
    for stage in syncs.stages(collected.totals):
        cell = stage.spread.cell
        size = (
            Value(human.UNKNOWN)
            if stage.transferred is None
            else Value(human.size(stage.transferred), stage.transferred)
        )
        times = [seconds_cell(cell.total), seconds_cell(cell.mean), quantile_cell(stage.spread, 0.95)]
        table.rows.append(
            [
                Value(stage.operation),
                number_cell(cell.count),
                *times,
                seconds_cell(cell.maximum),
                number_cell(stage.failed),
                size,
            ]
        )
    return table
