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


def collective_totals(found: list[CollectiveTotals]) -> Table:
    """Collectives by operation and group, over all ranks."""
    table = Table(
        ["Operation", "Group", ">Calls", ">Data", ">Waiting", ">Launching", ">Wait per call", "Waits longest"]
    )
    for one in found:
        longest = one.longest_wait
        table.rows.append(
            [
                Value(one.operation),
                Value(f"{one.group or human.UNKNOWN} ({one.size or '?'} ranks)"),
                number_cell(one.calls),
                Value(human.size(one.bytes), one.bytes),
                seconds_cell(one.wait),
                seconds_cell(one.launch),
                seconds_cell(one.wait / one.calls if one.calls else None),
                Value(f"rank {longest[0]}, {human.duration(longest[1])}" if longest else human.UNKNOWN),
            ]
        )
    return table


def slow_collectives(found: list[SlowCollective]) -> Table:
    """Single collectives that took longest."""
    table = Table(["Operation", "Group", ">Took", ">Data", ">Step", ">Rank"], shown=5)
    for one in found:
        group = f"{one.group or human.UNKNOWN} ({one.ranks or '?'} ranks)"
        size = Value(human.size(one.size), one.size)
        place = [number_cell(one.iteration), number_cell(one.rank)]
        table.rows.append([Value(one.operation), Value(group), seconds_cell(one.seconds), size, *place])
    return table
