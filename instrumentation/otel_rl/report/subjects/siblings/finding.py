"""What is slower than its siblings all along: a tool, a reward function, a server."""

from __future__ import annotations

from dataclasses import dataclass
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
    from otel_rl.report.core.collected import Collected, Known
    from otel_rl.report.core.over_time import Line


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


def findings(collected: Collected, known: Known) -> list[Finding]:
    """Return what is slower than its siblings, and what no change explains."""
    return unexplained(_slow_siblings(collected), known["changes"])


def _slow_siblings(collected: Collected) -> list[Finding]:
    """Return tools, reward functions and servers that take many times as long as the others of their kind."""
    slow = [finding for group in _groups(collected) if (finding := _slow_one(group)) is not None]
    return sorted(slow, key=lambda finding: -(finding.cost or 0.0))


def _groups(collected: Collected) -> list[_Siblings]:
    calls, spent_in_steps = collected[Calls], whole_seconds(collected.steps, collected.totals)
    in_rollouts = calls.rollouts.fair.cell.total
    spent, of = (in_rollouts, "the rollouts' time") if in_rollouts else (spent_in_steps, "the steps' time")
    lines = calls.over_time.seconds.lines()
    tools = merged({key: line for key, line in lines.items() if key.kind == TOOL}, lambda called: called.name)
    functions = merged(collected[Rewards].functions.lines(), lambda key: key[0])
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
