"""Tables on training: phases, ranks, collectives, rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import colours, human
from otel_rl.report.core.cells import Table, Value, number_cell, quantile_cell, seconds_cell
from otel_rl.report.core.loops import written
from otel_rl.report.core.statistics import Spread
from otel_rl.report.core.steps import UNCOVERED
from otel_rl.report.subjects.weight_syncs import aggregate as weight_syncs

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.loops import Loops
    from otel_rl.report.core.steps import SlowCollective, Steps
    from otel_rl.report.subjects.ranks.collectives import CollectiveTotals


def phases(steps: Steps) -> Table:
    """Build the table of step time by phase."""
    titles = [
        "Phase",
        ">Own time per step",
        ">Share",
        ">With inner phases",
        ">Times per step",
        ">p95 of one",
        ">Longest",
    ]
    table = Table(titles)
    count = steps.lengths.cell.count or 1
    own = {phase: sum(cell.total for _, cell in line) for phase, line in steps.phases.lines().items()}
    whole = sum(own.values())
    for phase in sorted(own, key=colours.order):
        spread = steps.uncovered if phase == UNCOVERED else steps.inclusive.get(phase)
        table.rows.append(
            [
                Value(phase, swatch=colours.of(phase)),
                seconds_cell(own[phase] / count),
                Value(human.percent(own[phase] / whole) if whole else human.UNKNOWN, own[phase]),
                seconds_cell(_whole(steps, phase, own[phase]) / count),
                number_cell(float(f"{spread.cell.count / count:.2g}") if spread else None),
                quantile_cell(spread, 0.95) if spread else seconds_cell(None),
                seconds_cell(spread.cell.maximum if spread else None),
            ]
        )
    return table


def sync_stages(collected: Collected) -> Table:
    """Build the table of operations on engines: what a sync of the weights consists of."""
    table = Table(["Operation", ">Times", ">Together", ">Mean", ">p95", ">Longest", ">Failed", ">Weights"])
    for one in weight_syncs.stages(collected.totals):
        cell = one.spread.cell
        size = Value(human.UNKNOWN) if one.transferred is None else Value(human.size(one.transferred), one.transferred)
        times = [seconds_cell(cell.total), seconds_cell(cell.mean), quantile_cell(one.spread, 0.95)]
        table.rows.append(
            [
                Value(one.operation),
                number_cell(cell.count),
                *times,
                seconds_cell(cell.maximum),
                number_cell(one.failed),
                size,
            ]
        )
    return table


def loops(found: Loops) -> Table:
    """Build the table of loops and attempts, the one that is shown first."""
    table = Table(["Loop", "Attempt", "Steps", ">Number", ">Mean step", "Drawn"])
    for stretch, steps in found.all():
        numbers = [first for line in steps.by_rank.lines().values() for first, _ in line]
        table.rows.append(
            [
                Value(stretch.loop or human.UNKNOWN),
                Value(written(stretch.attempt) or human.UNKNOWN),
                Value(f"{human.number(min(numbers))} to {human.number(steps.last_iteration)}", min(numbers)),
                number_cell(max(totals.steps.count for totals in steps.ranks.values())),
                seconds_cell(steps.lengths.cell.mean),
                Value("yes" if steps is found.main else "no"),
            ]
        )
    return table


def _whole(steps: Steps, phase: str, own: float) -> float:
    """Seconds with the phases inside it; never below its own, which a phase that was cut short still has."""
    return max(steps.whole.get(phase, 0.0), own)


def durations(spreads: dict[str, Spread]) -> Table:
    """Durations by phase, where no step holds them together."""
    table = Table(["Phase", ">Times", ">Mean", ">p50", ">p95", ">Longest", ">Total"])
    for phase, spread in sorted(spreads.items(), key=lambda item: colours.order(item[0])):
        cell, quantiles = spread.cell, [quantile_cell(spread, share) for share in (0.5, 0.95)]
        seconds = [seconds_cell(cell.mean), *quantiles, seconds_cell(cell.maximum), seconds_cell(cell.total)]
        table.rows.append([Value(phase, swatch=colours.of(phase)), number_cell(cell.count), *seconds])
    return table


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


def rewards(collected: Collected) -> Table:
    """Scores by reward function."""
    table = Table(["Reward", ">Scores", ">Mean", ">p5", ">Median", ">p95", ">Lowest", ">Highest", ">Time per call"])
    scores = collected.rewards.scores(collected.totals, collected.trajectories.scores)
    seconds = collected.rewards.seconds
    for name in sorted({*scores, *seconds}):
        spread, spent = scores.get(name, Spread()), seconds.get(name, Spread())
        cell = spread.cell
        quantiles = [quantile_cell(spread, share, human.number) for share in (0.05, 0.5, 0.95)]
        count, mean, *ends = [number_cell(value) for value in (cell.count, cell.mean, cell.minimum, cell.maximum)]
        table.rows.append([Value(name), count, mean, *quantiles, *ends, seconds_cell(spent.cell.mean)])
    return table
