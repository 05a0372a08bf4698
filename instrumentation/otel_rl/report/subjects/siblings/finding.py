"""What is slower than its siblings all along: a tool, a reward function, a server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import Finding, Severity, unexplained
from otel_rl.report.core.over_time import merged
from otel_rl.report.core.statistics import Cell
from otel_rl.report.core.steps import whole_seconds
from otel_rl.report.subjects.calls.aggregate import Calls
from otel_rl.report.subjects.calls.calls_over_time import MODEL, TOOL
from otel_rl.report.subjects.rewards.aggregate import Rewards

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.core.over_time import Line
    from otel_rl.report.subjects.calls.calls_over_time import Called


@dataclass(frozen=True, slots=True)
class _Siblings:
    """Things of one kind, with their durations; ``spent`` is the time that a share is of.

    ``occupied`` are the seconds of each, in which calls at once count once.
    """

    code: str
    what: str
    section: str
    chart: str
    cells: dict[str, Cell]
    occupied: dict[str, float]
    spent: float
    of: str
    factor: float = thresholds.SLOWER_THAN_SIBLINGS
    fewest: int = thresholds.FEWEST_SIBLINGS


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return what is slower than its siblings, and what no change explains."""
    return unexplained(_slow_siblings(collected), known["changes"])


def _slow_siblings(collected: Collected) -> list[Finding]:
    """Return tools, reward functions and servers that take many times as long as the others of their kind."""
    slow = [finding for group in _groups(collected) if (finding := _slow_one(group)) is not None]
    return sorted(slow, key=lambda finding: -(finding.cost or 0.0))


def _groups(collected: Collected) -> list[_Siblings]:
    calls, spent_in_steps = collected[Calls].over_time, whole_seconds(collected.steps, collected.totals)
    lines, rewards = calls.seconds.lines(), collected[Rewards]
    groups = [
        _Siblings(
            "slow_reward", "Reward function", "rewards", "reward-seconds",
            _cells(merged(rewards.functions.lines(), lambda key: key[0])),
            _seconds(merged(rewards.occupied.steps.lines(), lambda key: key[0])),
            spent_in_steps, "the steps' time",
        ),
    ]  # fmt: skip
    tools = {called for called in lines if called.kind == TOOL}
    groups.append(_of_calls(collected, tools, lambda called: called.name, "slow_tool", "Tool", "tools", "tool-seconds"))
    for model in {key.name for key in lines if key.kind == MODEL}:
        of_model = {key for key in lines if key.kind == MODEL and key.name == model}
        what = f"Model {sentences.model(model)} at"
        group = _of_calls(
            collected, of_model, lambda called: called.place, "slow_server", what, "models", "model-seconds"
        )
        groups.append(replace(group, factor=thresholds.SLOWER_SERVER, fewest=thresholds.FEWEST_SERVERS))
    return groups


def _of_calls(
    collected: Collected,
    callees: set[Called],
    name: Callable[[Called], str],
    code: str,
    what: str,
    section: str,
    chart: str,
) -> _Siblings:
    """Return some callees as siblings; their share is of the rollouts' time where most of their calls are in these."""
    calls, spent = collected[Calls], whole_seconds(collected.steps, collected.totals)
    in_rollouts, of = calls.rollouts.fair.cell.total, "the steps' time"
    lines = {called: line for called, line in calls.over_time.seconds.lines().items() if called in callees}
    inside = sum(calls.over_time.in_rollouts.get(place, 0) for place in {called[:3] for called in callees})
    occupied = calls.over_time.occupied.steps
    if in_rollouts and (not calls.marks_rollouts or 2 * inside > sum(line.count for line in lines.values())):
        occupied, spent, of = calls.over_time.occupied.rollouts, in_rollouts, "the rollouts' time"
    time = {called: line for called, line in occupied.lines().items() if called in callees}
    return _Siblings(code, what, section, chart, _cells(merged(lines, name)), _seconds(merged(time, name)), spent, of)


def _seconds(lines: dict[Any, Line]) -> dict[str, float]:
    return {str(name): sum(cell.total for cell in line.cells) for name, line in lines.items()}


def _cells(lines: dict[Any, Line]) -> dict[str, Cell]:
    by_name: dict[str, Cell] = {}
    for name, line in lines.items():
        cell = by_name.setdefault(str(name), Cell())
        for part in line.cells:
            cell.merge(part)
    return {name: cell for name, cell in by_name.items() if cell.count >= thresholds.FEWEST_CALLS}


def _slow_one(group: _Siblings) -> Finding | None:
    if len(group.cells) < group.fewest or not group.spent:
        return None
    slow = max(group.cells, key=lambda name: group.cells[name].mean)
    own = group.cells[slow]
    others = max(median(cell.mean for name, cell in group.cells.items() if name != slow), thresholds.SHORT_CALL)
    more = own.mean - others
    occupied = group.occupied[slow]
    share = min(more / own.mean * occupied / group.spent, 1.0)
    is_slower = own.mean >= group.factor * others and more >= thresholds.NOTABLE_SECONDS
    if not is_slower or share < thresholds.NOTABLE_SIBLING:
        return None
    times = f"{own.mean / others:.0f} times" if own.mean >= 3 * others else f"{own.mean / others:.1f} times"
    text = (
        f"{group.what} {slow} takes {human.duration(own.mean)} a call, {times} as long as"
        f" {_others(group, slow)} ({human.duration(others)}): {human.percent(share)} of {group.of}"
        f"{sentences.AT_ONCE if 2 * occupied <= own.total else ''}."
    )
    # As it always was: that may be what the tool does, so it is never critical.
    return Finding(group.code, Severity.WARNING, text, group.section, subject=slow, chart=group.chart, cost=share)


def _others(group: _Siblings, slow: str) -> str:
    names = [name or "an unknown place" for name in group.cells if name != slow]
    return names[0] if len(names) == 1 else "the median of the others"
