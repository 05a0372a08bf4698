"""What was recorded of agents, in the form in which tests of agent libraries compare it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from otel_rl.telemetry import deferral
from otel_rl.training import trajectories

if TYPE_CHECKING:
    from conftest import Recorded

_FIGURES = {
    "turns": "rl.rollout.turns",
    "models": "rl.rollout.model_calls",
    "tools": "rl.rollout.tool_calls",
    "tool errors": "rl.rollout.tool_errors",
    "input": "rl.rollout.input_tokens",
    "output": "rl.rollout.output_tokens",
    "status": "rl.rollout.status",
}


def rows(recorded: Recorded) -> list[dict[str, Any]]:
    """The rows of all trajectories so far, each by the names of its columns."""
    trajectories.record()
    deferral.drain_all()
    found: list[dict[str, Any]] = []
    for record in recorded.events("rl.trajectories"):
        lists = {name: values for name, values in record.body.items() if isinstance(values, list | tuple)}
        size = len(record.body["rl.rollout.id"])
        found += [{name: values[number] for name, values in lists.items()} for number in range(size)]
    return found


def figures(row: dict[str, Any]) -> dict[str, Any]:
    """Those that any agent has."""
    return {name: row.get(column) for name, column in _FIGURES.items()}


def names(recorded: Recorded) -> Counter[str]:
    """How many spans of each name there are."""
    return Counter(span.name for span in recorded.spans)


def scopes(recorded: Recorded) -> set[str]:
    """Whose spans they are."""
    return {span.instrumentation_scope.name for span in recorded.spans}


def traces(recorded: Recorded) -> set[str]:
    """The traces of all spans."""
    return {f"{span.context.trace_id:032x}" for span in recorded.spans}
