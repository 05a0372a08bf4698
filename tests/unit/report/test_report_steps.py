"""Step time by phase, from spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import SpanContext, TraceFlags
from support.reward_readers import tables_of
from unit.report.synthetic_run import ProcessWriter, process

from otel_rl.report.core.loops import Loops
from otel_rl.report.core.steps import UNCOVERED
from otel_rl.store.reader import Process, Reader, Span, find_run

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.report.core.steps import Steps

SECOND = 1_000_000_000
PROCESS = Process("p")


def _span(name: str, span_id: str, parent_id: str, trace_id: str, **attributes: Any) -> Span:
    values = {"rl.loop.iteration": 1, **{key.replace("_", "."): value for key, value in attributes.items()}}
    return Span(PROCESS, "s", name, trace_id, span_id, parent_id, 0, SECOND, values, [], False, "", 0)


def _steps(*records: Any) -> Steps:
    return Loops(tables_of(*records)).main


def _seconds(steps: Steps) -> dict[str, float]:
    return {phase: line.total for phase, line in steps.phases.items()}


def test_phases_of_rollouts_that_run_beside_each_other_are_no_parts_of_the_step() -> None:
    steps = _steps(
        *(
            _span("rl.generate", f"g{number}", f"r{number}", f"t{number}", rl_phase="generate", rl_rollout_id="x")
            for number in range(4)
        ),
        _span("rl.sample", "s", "a", "t", rl_phase="sample"),
        _span("rl.rank.step", "a", "b", "t"),
    )
    assert _seconds(steps) == {"sample": 1.0, UNCOVERED: 0.0}
    assert steps.inclusive["generate"].cell.count == 4


def _write_step_with_a_failed_phase(writer: ProcessWriter, iteration: int) -> None:
    """A step of 10 s: ``rl.sample`` of 6 s with ``rl.generate`` of 4 s in it that failed, and ``rl.train`` of 3 s."""
    start, trace_id = 20.0 * iteration, iteration + 1
    step, sample = (
        SpanContext(trace_id, 2 * iteration + number, is_remote=False, trace_flags=TraceFlags(1)) for number in (1, 2)
    )

    def phase(name: str, begin: float, seconds: float, parent: SpanContext, error: str | None = None) -> None:
        attributes = {"rl.loop.iteration": iteration, "rl.phase": name}
        writer.span(f"rl.{name}", begin, begin + seconds, attributes, parent, error)

    # Half of the failed phases end together with the phase around them.
    phase("generate", start + (iteration % 2) * 2, 4.0, sample, error="RuntimeError")
    writer.ids.span = sample.span_id
    phase("sample", start, 6.0, step)
    phase("train", start + 6, 3.0, step)
    writer.ids.span = step.span_id
    root = SpanContext(trace_id, 1_000_000 + iteration, is_remote=True, trace_flags=TraceFlags(1))
    writer.span("rl.rank.step", start, start + 10, {"rl.loop.iteration": iteration}, root)


def test_a_failed_phase_is_not_counted_in_the_time_of_the_phase_or_step_around_it(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", 0, started=1_800_000_000 * SECOND)
    for iteration in range(150):
        _write_step_with_a_failed_phase(writer, iteration)
    writer.write()

    steps = _steps(*Reader(find_run(tmp_path / "run")).records())

    assert len(list((tmp_path / "run").glob("*/traces-errors-*.jsonl"))) == 1
    assert _seconds(steps) == {"generate": 150 * 4.0, "sample": 150 * 2.0, "train": 150 * 3.0, UNCOVERED: 150 * 1.0}


def test_data_wait_lies_between_steps_and_uncovered_time_is_what_no_phase_has() -> None:
    spans = []
    for iteration in (1, 2):
        trace = f"t{iteration}"
        values = {"rl_loop_iteration": iteration}
        spans.append(_span("rl.data_wait", f"w{iteration}", f"root{iteration}", trace, rl_phase="data_wait", **values))
        spans.append(_span("rl.rank.step", f"a{iteration}", f"root{iteration}", trace, **values))
    steps = _steps(*spans)

    assert (steps.waits.cell.count, steps.waits.cell.total) == (2, 2.0)
    assert (steps.uncovered.cell.count, steps.uncovered.cell.total) == (2, 2.0)
    assert steps.lengths.cell.total == 2.0


def test_stretches_of_a_suspended_phase_are_one_occurrence() -> None:
    last = _timed("rl.sample", "s3", "a", 1.0, 2.0, rl_phase="sample")
    last.attributes["rl.active_duration"] = 2.0
    steps = _steps(
        _timed("rl.sample", "s1", "a", 1.0, rl_phase="sample", rl_suspended=True),
        _timed("rl.sync", "s2", "a", 1.0, 1.0, rl_phase="sync"),
        last,
    )

    assert (steps.inclusive["sample"].cell.count, steps.inclusive["sample"].cell.total) == (1, 2.0)
    assert _seconds(steps) == {"sample": 2.0, "sync": 1.0}


def _timed(name: str, span_id: str, parent_id: str, seconds: float, start: float = 0.0, **attributes: Any) -> Span:
    span = _span(name, span_id, parent_id, "t", **attributes)
    span.start, span.end = int(start * SECOND), int((start + seconds) * SECOND)
    return span


def test_a_phase_inside_one_of_its_own_name_counts_once_and_never_below_its_own_time() -> None:
    steps = _steps(
        _timed("rl.reward", "inner", "outer", 2.0, rl_phase="reward"),
        _timed("rl.reward", "outer", "step", 3.0, rl_phase="reward"),
        *(_timed("rl.forward", f"f{number}", "train", 1.5, 3 + 2 * number, rl_phase="forward") for number in range(2)),
        _timed("rl.train", "train", "step", 4.0, 3.0, rl_phase="train"),
        _timed("rl.rank.step", "step", "root", 8.0),
    )
    assert _seconds(steps) == {"reward": 3.0, "forward": 3.0, "train": 1.0, UNCOVERED: 1.0}
    assert steps.whole == {"reward": 3.0, "forward": 3.0, "train": 4.0}


def test_an_evaluation_between_two_guessed_steps_is_a_phase_of_the_later_one_which_spans_both() -> None:
    guessed = {"rl_loop_source": "guessed"}
    between = _timed("rl.evaluate", "e", "", 4.0, 3.0, rl_phase="evaluate")
    between.trace_id = "elsewhere"
    del between.attributes["rl.loop.iteration"]
    steps = _steps(
        _timed("rl.rank.step", "one", "root", 2.0, rl_loop_iteration=1, **guessed),
        between,
        _timed("rl.rank.step", "two", "root", 6.0, 2.0, rl_loop_iteration=2, **guessed),
    )
    assert steps.uncovered.cell.total == 2.0 + 2.0
    assert {key: (line.x, list(line.totals)) for key, line in steps.parts.items() if key[0] == "evaluate"} == {
        ("evaluate", None): ([2], [4.0])
    }


def test_data_that_was_waited_for_before_a_step_is_no_time_between_steps() -> None:
    steps = _steps(
        _timed("rl.rank.step", "first", "root 1", 1.0),
        _timed("rl.data_wait", "wait", "root 2", 0.4, 1.2, rl_phase="data_wait", rl_loop_iteration=2),
        _timed("rl.rank.step", "second", "root 2", 1.0, 2.0, rl_loop_iteration=2),
    )
    [between] = steps.between.values()
    assert between.total == pytest.approx(0.6)


def test_the_late_steps_of_the_ranks_can_be_counted_twice() -> None:
    steps = _steps(
        *(_timed("rl.rank.step", f"s{rank}", "root", seconds, rl_rank=rank) for rank, seconds in enumerate((1.0, 2.0)))
    )
    assert [steps.count_slowest(), steps.ranks[1].slowest, steps.count_slowest(), steps.ranks[1].slowest] == [1] * 4
