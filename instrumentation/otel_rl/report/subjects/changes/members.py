"""What differs from its siblings: a tool, function or server that is slower all along, a server without calls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import Finding, Severity, unexplained
from otel_rl.report.core.lines import merged
from otel_rl.report.core.statistics import Cell
from otel_rl.report.core.steps import whole_seconds
from otel_rl.report.subjects.calls import lines as call_lines
from otel_rl.report.subjects.calls import rollouts
from otel_rl.store.tables.load import MODEL, ROLLOUT, TOOL

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.lines import Line
    from otel_rl.report.subjects.calls.lines import Called


#: Steps without a call, and the part of all steps that they must be; share of the calls that a server had before.
_IDLE_STEPS, _IDLE_PART, _IDLE_SHARE = 5, 10, 0.05


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


def findings(collected: Collected, changes: list[Finding]) -> list[Finding]:
    """Return what differs from its siblings, and what no change explains."""
    return [*_idle_servers(collected), *unexplained(_slow_siblings(collected), changes)]


def _idle_servers(collected: Collected) -> list[Finding]:
    """Return servers of a model that get no call any more while others of it do."""
    lines = merged(call_lines.of_kind(collected, "seconds", MODEL), lambda called: (called.name, called.place))
    models: dict[str, dict[str, Line]] = {}
    for (name, place), line in lines.items():
        if line.by_step:
            models.setdefault(name, {})[place] = line
    return [
        finding
        for name, servers in models.items()
        for place in servers
        if (finding := _idle_server(sentences.model(name), place, servers)) is not None
    ]


def _idle_server(model: str, place: str, servers: dict[str, Line]) -> Finding | None:
    own, others = servers[place], {at: line for at, line in servers.items() if at != place}
    steps = sorted({x for line in others.values() for x in line.x})
    idle = [x for x in steps if x > own.x[-1]]
    if len(idle) < max(_IDLE_STEPS, len(steps) // _IDLE_PART) or len(own.x) < max(len(steps) - len(idle), 2) / 2:
        return None
    share = own.count / (own.count + sum(line.count_between(own.x[0], own.x[-1]) for line in others.values()))
    if share < _IDLE_SHARE:
        return None
    text = (
        f"Model {model} at {place} got no call from step {idle[0]} to {idle[-1]}, after {human.percent(share)} of the"
        f" calls before: all went to {human.listed(list(others))}."
    )
    look_at = ["The router in front of the servers, and the health of this one."]
    return Finding(
        "idle_server", Severity.WARNING, text, "models", model, place, "model-seconds",
        cost=len(idle) / len(steps), onset=idle[0], look_at=look_at,
    )  # fmt: skip


def _slow_siblings(collected: Collected) -> list[Finding]:
    """Return tools, reward functions and servers that take many times as long as the others of their kind."""
    slow = [finding for group in _groups(collected) if (finding := _slow_one(group)) is not None]
    return sorted(slow, key=lambda finding: -(finding.cost or 0.0))


def _groups(collected: Collected) -> list[_Siblings]:
    spent_in_steps = whole_seconds(collected.steps, collected.totals)
    lines = call_lines.of_calls(collected, "seconds")
    groups = [
        _Siblings(
            "slow_reward", "Reward function", "rewards", "reward-seconds",
            _cells(merged(call_lines.of_rewards(collected, "seconds"), lambda key: key[0])),
            _seconds(merged(call_lines.of_rewards(collected, "occupied"), lambda key: key[0])),
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
    of_run, spent = rollouts.of_run(collected), whole_seconds(collected.steps, collected.totals)
    of, occupied = "the steps' time", "occupied"
    lines = {called: line for called, line in call_lines.of_calls(collected, "seconds").items() if called in callees}
    inside = call_lines.in_rollouts(collected, {called[:3] for called in callees})
    are_inside = of_run.kind != ROLLOUT or 2 * inside > sum(line.count for line in lines.values())
    if of_run.fair.cell.total and are_inside:
        occupied, spent, of = "occupied_in_rollouts", of_run.fair.cell.total, "the rollouts' time"
    time = {called: line for called, line in call_lines.of_calls(collected, occupied).items() if called in callees}
    return _Siblings(code, what, section, chart, _cells(merged(lines, name)), _seconds(merged(time, name)), spent, of)


def _seconds(lines: dict[Any, Line]) -> dict[str, float]:
    return {str(name): line.total for name, line in lines.items()}


def _cells(lines: dict[Any, Line]) -> dict[str, Cell]:
    return {
        str(name): Cell(line.count, line.total) for name, line in lines.items() if line.count >= thresholds.FEWEST_CALLS
    }


def _slow_one(group: _Siblings) -> Finding | None:
    if len(group.cells) < group.fewest or not group.spent:
        return None
    slow = max(group.cells, key=lambda name: group.cells[name].mean)
    own = group.cells[slow]
    others = median(cell.mean for name, cell in group.cells.items() if name != slow)
    more = own.mean - max(others, thresholds.SHORT_CALL)
    occupied = group.occupied[slow]
    share = min(more / own.mean * occupied / group.spent, 1.0)
    is_slower = own.mean >= group.factor * max(others, thresholds.SHORT_CALL) and more >= thresholds.NOTABLE_SECONDS
    if not is_slower or share < thresholds.NOTABLE_SIBLING:
        return None
    ratio = own.mean / max(others, 1e-9)
    times = f"{ratio:.0f} times" if ratio >= 3 else f"{ratio:.1f} times"  # noqa: PLR2004 - a tenth matters below
    text = (
        f"{group.what} {slow} takes {human.duration(own.mean)} a call, {times} as long as"
        f" {_others(group, slow)} ({human.duration(others)}): {human.percent(share)} of {group.of}"
        f"{sentences.AT_ONCE if 2 * occupied <= own.total else ''}."
    )
    # As it always was: that may be what the tool does, so it is never critical. Servers of one model do the same.
    is_server = group.fewest == thresholds.FEWEST_SERVERS
    severity = Severity.WARNING if is_server or share >= thresholds.CRITICAL_SHARE else Severity.NOTICE
    place = slow if is_server else ""
    return Finding(group.code, severity, text, group.section, slow, place, group.chart, cost=share)


def _others(group: _Siblings, slow: str) -> str:
    names = [name or "an unknown place" for name in group.cells if name != slow]
    return names[0] if len(names) == 1 else "the median of the others"
