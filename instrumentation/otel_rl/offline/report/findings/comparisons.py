"""What is slower than its siblings all along: a rank, a tool, a reward function, a server."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from otel_rl.offline.report import human
from otel_rl.offline.report.aggregate.calls_over_time import MODEL, TOOL
from otel_rl.offline.report.aggregate.over_time import merged
from otel_rl.offline.report.aggregate.statistics import Cell
from otel_rl.offline.report.aggregate.steps import UNCOVERED
from otel_rl.offline.report.findings import sentences, thresholds
from otel_rl.offline.report.findings.finding import Finding, Severity

if TYPE_CHECKING:
    from otel_rl.offline.report.aggregate.collected import Collected
    from otel_rl.offline.report.aggregate.over_time import Line
    from otel_rl.stragglers.run import RunComparison

_FEWEST_STEPS = 3


# -- ranks ---------------------------------------------------------------------------------------------------------


def late_rank(collected: Collected) -> list[Finding]:
    """The rank that the others wait for: over the whole run, and what the last steps would have been without it."""
    over_all = _most_work(collected)
    last = _of_late(collected, alone=over_all is None)
    if over_all is None:
        return [] if last is None else [last]
    if last is not None:
        over_all.evidence.append(last.text)
    return [over_all]


def _most_work(collected: Collected) -> Finding | None:
    steps = collected.steps
    compared = steps.count_slowest()
    ranks = {rank: totals for rank, totals in steps.ranks.items() if rank is not None}
    if compared < _FEWEST_STEPS:
        return None
    slowest = max(ranks, key=lambda rank: ranks[rank].slowest)
    more, length = _typical(collected, slowest)
    share = more / length if length else 0.0
    is_often = _is_often(ranks[slowest].slowest, compared, len(ranks))
    if not is_often or share < thresholds.NOTABLE_SHARE or more < thresholds.NOTABLE_SECONDS:
        return None
    text = (
        f"Rank {slowest} makes the others wait: most work of its own in {ranks[slowest].slowest} of {compared} steps, "
        f"{human.duration(more)} more per step ({human.percent(share)} of a step){_place(collected, slowest, more)}."
    )
    severity = Severity.CRITICAL if share >= thresholds.CRITICAL_SHARE else Severity.WARNING
    return Finding(
        "late_rank", severity, text, "ranks", chart="own-work", cost=share, ranks=[slowest],
        look_at=[f"Host, device and data of rank {slowest}, against those of the others."],
    )  # fmt: skip


def _is_often(late: int, steps: int, ranks: int) -> bool:
    """True where a rank is the late one in most steps, and more often than chance makes one."""
    return _chance(late, steps, ranks) <= thresholds.LATE_BY_CHANCE


def _chance(late: int, steps: int, ranks: int) -> float:
    """How likely one rank is the late one so often by accident (a binomial test); 1 below most steps."""
    if late < thresholds.LATE_STEPS * steps:
        return 1.0
    share = 1 / max(ranks, 2)
    orders = [lgamma(steps + 1) - lgamma(number + 1) - lgamma(steps - number + 1) for number in range(late, steps + 1)]
    logarithms = [
        order + number * log(share) + (steps - number) * log(1 - share) for number, order in enumerate(orders, late)
    ]
    return sum(map(exp, logarithms))


def _typical(collected: Collected, rank: int) -> tuple[float, float]:
    """How much longer a rank works than the others, and the length of a step: medians, for a checkpoint is no habit."""
    by_bin: dict[int, dict[int, float]] = {}
    for one, line in collected.steps.own.lines().items():
        if one is not None:
            for first, cell in line:
                by_bin.setdefault(first, {})[one] = cell.mean
    met = [cells for cells in by_bin.values() if rank in cells and len(cells) > 1]
    more = [cells[rank] - fmean(value for one, value in cells.items() if one != rank) for cells in met]
    return (median(more) if more else 0.0), collected.steps.lengths.quantile(0.5)


def _place(collected: Collected, rank: int, more: float) -> str:
    """The reward function, else the phase, in which a rank works longer than the others."""
    functions = _per_step(merged(collected.rewards.functions.lines(), lambda one: one), collected)
    parts = {key: _sum(line) for key, line in collected.steps.parts.lines().items()}
    for what, seconds in (("reward function", functions), ("phase", parts)):
        differences = _differences(seconds, rank, collected)
        if not differences:
            continue
        name, (own, others) = max(differences.items(), key=lambda one: one[1][0] - one[1][1])
        if own - others >= 0.5 * more:
            where = "outside of all phases" if name == UNCOVERED else f"in {what} {name}"
            return f", {where} ({human.duration(own)} a step, {human.duration(others)} on the others)"
    return ""


def _sum(line: list[tuple[int, Cell]]) -> float:
    return sum(cell.total for _, cell in line)


def _per_step(lines: dict[Any, Line], collected: Collected) -> dict[Any, float]:
    return {
        key: sum(cell.total for cell in line.cells) for key, line in lines.items() if key[1] in collected.steps.ranks
    }


def _differences(seconds: dict[Any, float], rank: int, collected: Collected) -> dict[str, tuple[float, float]]:
    """Name -> seconds of a step on this rank, and on the others."""
    counts = {one: totals.steps.count for one, totals in collected.steps.ranks.items() if one is not None}
    found = {}
    for name in {name for name, _ in seconds}:
        of_rank = {one: seconds.get((name, one), 0.0) / count for one, count in counts.items()}
        found[name] = of_rank[rank], fmean(value for one, value in of_rank.items() if one != rank)
    return found


def _of_late(collected: Collected, *, alone: bool = True) -> Finding | None:
    """The rank without which the last steps would have been shorter, from the flight recorders."""
    comparison = collected.rings.comparison
    costs = comparison.costs() if comparison is not None else []
    if comparison is None or not costs or len(comparison.steps) < _FEWEST_STEPS:
        return None
    cost = costs[0]
    # Of all steps, those in which another rank was the late one too: one long step is no habit.
    shares = [
        step.lost_share if step.straggler and step.straggler.rank == cost.rank else 0.0 for step in comparison.steps
    ]
    is_notable = median(shares) >= thresholds.NOTABLE_SHARE and cost.lost >= thresholds.NOTABLE_SECONDS
    if not is_notable or cost.steps < thresholds.LATE_STEPS * len(comparison.steps):
        return None
    # Beside the finding on the whole run it says more of the same. Alone, the rank has been picked from all of them.
    ranks = max(len(collected.steps.ranks), 2)
    if alone and ranks * _chance(cost.steps, len(comparison.steps), ranks) > thresholds.LATE_BY_CHANCE:
        return None
    text = _without(comparison)
    return Finding(
        "late_rank", Severity.WARNING, text, "ranks", chart="own-work", cost=_share_of_run(cost, collected),
        ranks=[cost.rank],
    )  # fmt: skip


def _share_of_run(cost: Any, collected: Collected) -> float:
    """The rings know the last steps only: the share that these are of the run is what was surely lost."""
    steps = max((totals.steps.count for totals in collected.steps.ranks.values()), default=0)
    return float(cost.share * min(cost.steps / steps, 1.0)) if steps else float(cost.share)


def _without(comparison: RunComparison) -> str:
    cost = comparison.costs()[0]
    phase = (
        f", which works longer in phase {cost.phase}" if cost.phase else ", which works longer outside of all phases"
    )
    last = len(comparison.steps)
    steps = f"the last {last} steps" if cost.steps == last else f"{cost.steps} of the last {last} steps"
    return (
        f"Without rank {cost.rank}{phase}, {steps} would have been {human.duration(cost.lost)}"
        f" ({human.percent(cost.share)}) shorter each for the others, who waited in {cost.operation}."
    )


# -- siblings ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Siblings:
    """Things of one kind, with their durations; ``spent`` is the time that a share is of."""

    code: str
    what: str
    section: str
    chart: str
    cells: dict[str, Cell]
    spent: float
    of: str
    factor: float = thresholds.SLOWER_THAN_SIBLINGS
    fewest: int = thresholds.FEWEST_SIBLINGS


def siblings(collected: Collected) -> list[Finding]:
    """Tools, reward functions and servers that take many times as long as the others of their kind."""
    found = [one for group in _groups(collected) if (one := _slow_one(group)) is not None]
    return sorted(found, key=lambda one: -(one.cost or 0.0))


def _groups(collected: Collected) -> list[_Siblings]:
    calls, spent_in_steps = collected.calls, collected.steps.lengths.cell.total
    in_rollouts = calls.rollouts.statistics.durations.cell.total
    spent, of = (in_rollouts, "the rollouts' time") if in_rollouts else (spent_in_steps, "the steps' time")
    lines = calls.over_time.seconds.lines()
    tools = merged({key: line for key, line in lines.items() if key.kind == TOOL}, lambda called: called.name)
    functions = merged(collected.rewards.functions.lines(), lambda key: key[0])
    groups = [
        _Siblings("slow_tool", "Tool", "tools", "tool-seconds", _cells(tools), spent, of),
        _Siblings(
            "slow_reward", "Reward function", "rewards", "reward-seconds", _cells(functions), spent_in_steps,
            "the steps' time",
        ),
    ]  # fmt: skip
    for model in {key.name for key in lines if key.kind == MODEL}:
        of_model = {key: line for key, line in lines.items() if key.kind == MODEL and key.name == model}
        servers = merged(of_model, lambda called: called.place)
        what = f"Model {sentences.model(model)} at"
        groups.append(
            _Siblings(
                "slow_server",
                what,
                "models",
                "model-seconds",
                _cells(servers),
                spent,
                of,
                thresholds.SLOWER_SERVER,
                thresholds.FEWEST_SERVERS,
            )
        )
    return groups


def _cells(lines: dict[Any, Line]) -> dict[str, Cell]:
    found: dict[str, Cell] = {}
    for name, line in lines.items():
        cell = found.setdefault(str(name), Cell())
        for one in line.cells:
            cell.merge(one)
    return {name: cell for name, cell in found.items() if cell.count >= thresholds.FEWEST_CALLS}


def _slow_one(group: _Siblings) -> Finding | None:
    if len(group.cells) < group.fewest or not group.spent:
        return None
    slow = max(group.cells, key=lambda name: group.cells[name].mean)
    own = group.cells[slow]
    others = max(median(cell.mean for name, cell in group.cells.items() if name != slow), thresholds.SHORT_CALL)
    more = own.mean - others
    share = min(more * own.count / group.spent, 1.0)
    is_slower = own.mean >= group.factor * others and more >= thresholds.NOTABLE_SECONDS
    if not is_slower or share < thresholds.NOTABLE_SIBLING:
        return None
    times = f"{own.mean / others:.0f} times" if own.mean >= 3 * others else f"{own.mean / others:.1f} times"
    text = (
        f"{group.what} {slow} takes {human.duration(own.mean)} a call, {times} as long as"
        f" {_others(group, slow)} ({human.duration(others)}): {human.percent(share)} of {group.of}."
    )
    # As it always was: that may be what the tool does, so it is never critical.
    return Finding(group.code, Severity.WARNING, text, group.section, subject=slow, chart=group.chart, cost=share)


def _others(group: _Siblings, slow: str) -> str:
    names = [name or "an unknown place" for name in group.cells if name != slow]
    return names[0] if len(names) == 1 else "the median of the others"
