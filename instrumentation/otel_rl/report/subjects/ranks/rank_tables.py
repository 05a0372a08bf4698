"""Tables of ranks and collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell

if TYPE_CHECKING:
    from otel_rl.report.core.steps import SlowCollective, Steps
    from otel_rl.report.subjects.ranks.collectives import CollectiveTotals


def ranks(steps: Steps, compared: int) -> Table:
    """Build the table of own work and collective time per rank."""
    table = Table(
        ["Rank", ">Steps", ">Mean step", ">Own work", ">In collectives", ">Collectives' share", ">Slowest in"]
    )
    for rank, totals in sorted(steps.ranks.items(), key=lambda item: (item[0] is None, item[0] or 0)):
        share = totals.collectives.total / totals.steps.total if totals.steps.total else 0.0
        slowest = f"{totals.slowest} of {compared}" if compared else human.UNKNOWN
        table.rows.append(
            [
                Value(human.UNKNOWN if rank is None else f"rank {rank}", rank),
                number_cell(totals.steps.count),
                seconds_cell(totals.steps.mean),
                seconds_cell(totals.own.mean if totals.own.count else None),
                seconds_cell(totals.collectives.mean),
                Value(human.percent(share), share),
                Value(slowest, totals.slowest),
            ]
        )
    return table


def collective_totals(collectives: list[CollectiveTotals]) -> Table:
    """Return collectives by operation and group, over all ranks."""
    table = Table(
        ["Operation", "Group", ">Calls", ">Data", ">Waiting", ">Launching", ">Wait per call", "Waits longest"]
    )
    for collective in collectives:
        longest = collective.longest_wait
        table.rows.append(
            [
                Value(collective.operation),
                Value(f"{collective.group or human.UNKNOWN} ({collective.size or '?'} ranks)"),
                number_cell(collective.calls),
                Value(human.size(collective.bytes), collective.bytes),
                seconds_cell(collective.wait),
                seconds_cell(collective.launch),
                seconds_cell(collective.wait / collective.calls if collective.calls else None),
                Value(f"rank {longest[0]}, {human.duration(longest[1])}" if longest else human.UNKNOWN),
            ]
        )
    return table


def slow_collectives(collectives: list[SlowCollective]) -> Table:
    """Return single collectives that took longest."""
    table = Table(["Operation", "Group", ">Took", ">Data", ">Step", ">Rank"], shown=5)
    for collective in collectives:
        group = f"{collective.group or human.UNKNOWN} ({collective.ranks or '?'} ranks)"
        size = Value(human.size(collective.size), collective.size)
        place = [number_cell(collective.iteration), number_cell(collective.rank)]
        table.rows.append([Value(collective.operation), Value(group), seconds_cell(collective.seconds), size, *place])
    return table
