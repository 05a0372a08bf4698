"""Step time by phase, from spans."""

from __future__ import annotations

from typing import Any

from otel_rl.offline.reader import Process, Span
from otel_rl.offline.report.aggregate.steps import OTHER, Steps

SECOND = 1_000_000_000


def _span(name: str, span_id: str, parent_id: str, trace_id: str, **attributes: Any) -> Span:
    values = {"rl.loop.iteration": 1, **{key.replace("_", "."): value for key, value in attributes.items()}}
    return Span(Process("p"), "s", name, trace_id, span_id, parent_id, 0, SECOND, values, [], False, "", 0)


def test_phases_of_rollouts_that_run_beside_each_other_are_no_parts_of_the_step() -> None:
    steps = Steps()
    for number in range(4):
        steps.add(
            _span("rl.generate", f"g{number}", f"r{number}", f"t{number}", rl_phase="generate", rl_rollout_id="x")
        )
    steps.add(_span("rl.sample", "s", "a", "t", rl_phase="sample"))
    steps.add(_span("rl.rank.step", "a", "b", "t"))
    seconds = {phase: line[0][1].total for phase, line in steps.phases.lines().items()}
    assert seconds == {"sample": 1.0, OTHER: 0.0}
    assert steps.inclusive["generate"].cell.count == 4
