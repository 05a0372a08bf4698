"""Tables on training: phases, ranks, collectives, rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import colours, human
from otel_rl.report.core.cells import Table, Value, duration_cells, number_cell, quantile_cell, seconds_cell
from otel_rl.report.core.steps import UNCOVERED

if TYPE_CHECKING:
    from otel_rl.report.core.loops import Loops
    from otel_rl.report.core.statistics import Spread
    from otel_rl.report.core.steps import Steps


def phases(steps: Steps) -> Table:
    """Build the table of step time by phase."""
    titles = ["Phase", ">Own time per step", ">Share", ">With inner phases", ">Times per step", ">p95 of one"]
    table = Table([*titles, ">Longest"])
    count = steps.lengths.cell.count or 1
    own = {phase: line.total for phase, line in steps.phases.items()}
    whole = sum(own.values()) - steps.seconds_at_once()
    for phase in sorted(own, key=colours.order):
        spread = steps.uncovered if phase == UNCOVERED else steps.inclusive.get(phase)
        table.rows.append(
            [
                Value(phase, swatch=colours.colour_of(phase)),
                seconds_cell(own[phase] / count),
                Value(human.percent(own[phase] / whole) if whole else human.UNKNOWN, own[phase]),
                seconds_cell(_whole(steps, phase, own[phase]) / count),
                number_cell(float(f"{spread.cell.count / count:.2g}") if spread else None),
                quantile_cell(spread, 0.95) if spread else seconds_cell(None),
                seconds_cell(spread.cell.maximum if spread else None),
            ]
        )
    return table


def loops(all_loops: Loops) -> Table:
    """Build the table of loops and attempts, the one that is shown first."""
    table = Table(["Loop", "Attempt", "Steps", ">Number", ">Mean step", "Drawn"])
    for stretch, steps in all_loops.all():
        numbers = [line.x[0] for line in steps.by_rank.values()]
        table.rows.append(
            [
                Value(stretch.loop or human.UNKNOWN),
                Value(stretch.attempt or human.UNKNOWN),
                Value(f"{human.number(min(numbers))} to {human.number(steps.last_iteration)}", min(numbers)),
                number_cell(max(totals.steps.count for totals in steps.ranks.values())),
                seconds_cell(steps.lengths.cell.mean),
                Value("yes" if steps is all_loops.main else "no"),
            ]
        )
    return table


def _whole(steps: Steps, phase: str, own: float) -> float:
    """Return seconds with the phases inside it; never below its own, which a phase that was cut short still has."""
    return max(steps.whole.get(phase, 0.0), own)


def durations(spreads: dict[str, Spread]) -> Table:
    """Return durations by phase, where no step holds them together."""
    table = Table(["Phase", ">Times", ">Mean", ">p50", ">p95", ">Longest", ">Total"])
    for phase, spread in sorted(spreads.items(), key=lambda item: colours.order(item[0])):
        begin = [Value(phase, swatch=colours.colour_of(phase)), number_cell(spread.cell.count)]
        table.rows.append([*begin, *duration_cells(spread)])
    return table
