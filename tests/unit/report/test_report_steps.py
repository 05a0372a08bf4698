"""Step time by phase, from spans."""

from __future__ import annotations

from typing import Any

from otel_rl.offline.reader import Process, Span
from otel_rl.offline.report.aggregate.steps import UNCOVERED, Steps

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
    assert seconds == {"sample": 1.0, UNCOVERED: 0.0}
    assert steps.inclusive["generate"].cell.count == 4


def test_data_wait_lies_between_steps_and_uncovered_time_is_what_no_phase_has() -> None:
    steps = Steps()
    for iteration in (1, 2):
        trace = f"t{iteration}"
        values = {"rl_loop_iteration": iteration}
        steps.add(_span("rl.data_wait", f"w{iteration}", f"root{iteration}", trace, rl_phase="data_wait", **values))
        steps.add(_span("rl.rank.step", f"a{iteration}", f"root{iteration}", trace, **values))

    assert (steps.waits.cell.count, steps.waits.cell.total) == (2, 2.0)
    assert (steps.uncovered.cell.count, steps.uncovered.cell.total) == (2, 2.0)
    assert steps.lengths.cell.total == 2.0
    assert steps._inside == {}


def test_stretches_of_a_suspended_phase_are_one_occurrence() -> None:
    steps = Steps()
    steps.add(_span("rl.sample", "s1", "a", "t", rl_phase="sample", rl_suspended=True))
    steps.add(_span("rl.sync", "s2", "a", "t", rl_phase="sync"))
    last = _span("rl.sample", "s3", "a", "t", rl_phase="sample")
    last.attributes["rl.active_duration"] = 2.0
    steps.add(last)

    assert (steps.inclusive["sample"].cell.count, steps.inclusive["sample"].cell.total) == (1, 2.0)
    seconds = {phase: line[0][1].total for phase, line in steps.phases.lines().items()}
    assert seconds == {"sample": 2.0, "sync": 1.0}
