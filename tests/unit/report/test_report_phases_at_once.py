"""Phases that run at once, as where the next batch is sampled while the trainer trains: each has its own length."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from opentelemetry.trace import SpanContext
from unit.report.made_up_jobs import STARTED, context
from unit.report.synthetic_run import process

from otel_rl.live import essentials
from otel_rl.report.core import finding
from otel_rl.report.core.charts import Charts
from otel_rl.report.core.collected import Collected
from otel_rl.report.core.finding import Finding, Severity
from otel_rl.report.core.steps import UNCOVERED
from otel_rl.report.subjects import load, overview
from otel_rl.report.subjects.health import finding as health
from otel_rl.report.subjects.steps import section
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS, LATER = 60, 30
#: Name of a phase, its start and its end in the step, and the phase around it, ``""`` for none.
Phases = list[tuple[str, float, float, str]]


def _run(run: Path, phases: Callable[[bool], Phases], length: Callable[[bool], float]) -> Collected:
    """Steps whose phases and lengths are others from step ``LATER`` on."""
    writer, at = process(run, 0, world_size=1, started=STARTED), 1.0
    for step in range(1, STEPS + 1):
        late, values, root = step >= LATER, {"rl.loop.iteration": step}, context("step", step)
        for name, start, end, around in sorted(phases(late), key=lambda phase: phase[2]):
            writer.ids.span = context(step, name, start).span_id
            starts = {phase: begin for phase, begin, _, _ in phases(late)}
            parent = root
            if around:
                inner = context(step, around, starts[around]).span_id
                parent = SpanContext(root.trace_id, inner, is_remote=False, trace_flags=root.trace_flags)
            writer.span(f"rl.{name}", at + start, at + end, {**values, "rl.phase": name}, parent)
        writer.ids.trace, writer.ids.span = root.trace_id, root.span_id
        writer.span("rl.rank.step", at, at + length(late), values)
        at += length(late)
    writer.write()
    return Collected(Reader(find_run(run)), load()).read(lambda _: None)


def _beside_training(seconds: float, later: float) -> Callable[[bool], Phases]:
    return lambda late: [("sample", 0.0, later if late else seconds, ""), ("train", 0.0, 1.0, "")]


def _means(collected: Collected) -> dict[str, float]:
    """Seconds of each phase in a step."""
    return {phase: line.total / STEPS for phase, line in collected.steps.phases.items()}


def _grown(collected: Collected) -> list[Finding]:
    return [found for found in overview.examine(collected).findings if found.code == "slower_phase"]


def test_a_phase_is_no_slower_where_another_that_runs_beside_it_becomes_shorter(tmp_path: Path) -> None:
    collected = _run(tmp_path / "run", _beside_training(0.8, 0.2), lambda _: 1.0)
    assert overview.examine(collected).worst is None
    assert _means(collected)["train"] == pytest.approx(1.0)


def test_a_phase_that_grows_beside_another_and_makes_no_step_longer_is_a_notice_without_a_cost(tmp_path: Path) -> None:
    [one] = _grown(_run(tmp_path / "run", _beside_training(0.2, 0.8), lambda _: 1.0))
    assert (one.severity, one.cost) == (Severity.NOTICE, None)
    assert one.text == (
        "Phase sample takes 800 ms a step since step 30 (200 ms before): the steps are about as long as before."
    )


def test_a_phase_that_outgrows_the_one_beside_it_costs_what_the_steps_became_longer(tmp_path: Path) -> None:
    collected = _run(tmp_path / "run", _beside_training(0.2, 1.25), lambda late: 1.25 if late else 1.0)
    [one] = _grown(collected)
    assert (one.severity, one.cost) == (Severity.WARNING, pytest.approx(0.25 / 1.25))
    assert one.text.endswith(": 20 % of the step.")
    assert [symptom.code for symptom in one.symptoms] == ["slower_step"]


def test_a_phase_that_cannot_have_grown_beside_another_costs_all_of_it(tmp_path: Path) -> None:
    def phases(late: bool) -> Phases:
        return [("train", 0.0, 1.0, ""), ("sample", 0.98, 1.1, ""), ("reward", 1.1, 1.9 if late else 1.5, "")]

    # What is in no phase became shorter.
    [one] = _grown(_run(tmp_path / "run", phases, lambda late: 1.9 if late else 1.75))
    assert one.text == "Phase reward takes 800 ms a step since step 30 (400 ms before): 20 % of the step."


def test_a_phase_that_takes_over_the_time_of_another_is_not_critical(tmp_path: Path) -> None:
    def phases(late: bool) -> Phases:
        middle = 0.1 if late else 0.8
        return [("sample", 0.0, middle, ""), ("train", middle, 1.0, "")]

    [one] = _grown(_run(tmp_path / "run", phases, lambda _: 1.0))
    assert (one.severity, one.cost) == (Severity.NOTICE, None)


def test_a_phase_beside_another_is_less_by_the_phases_in_it_alone(tmp_path: Path) -> None:
    collected = _run(
        tmp_path / "run",
        lambda _: [("sample", 0.0, 0.5, ""), ("forward", 0.0, 0.25, "train"), ("train", 0.0, 0.75, "")],
        lambda _: 1.0,
    )
    assert _means(collected) == pytest.approx({"sample": 0.5, "forward": 0.25, "train": 0.5, UNCOVERED: 0.25})


def test_several_calls_of_a_phase_at_once_count_once_beside_another_one(tmp_path: Path) -> None:
    collected = _run(
        tmp_path / "run",
        lambda _: [("sample", 0.0, 0.5, ""), ("sample", 0.25, 0.75, ""), ("train", 0.5, 1.0, "")],
        lambda _: 1.0,
    )
    assert _means(collected) == pytest.approx({"sample": 0.75, "train": 0.5, UNCOVERED: 0.0})
    assert collected.steps.seconds_at_once() == pytest.approx(0.25 * STEPS)


def test_the_page_says_by_how_much_phases_at_once_are_longer_than_the_step(tmp_path: Path) -> None:
    collected = _run(tmp_path / "run", _beside_training(0.5, 0.5), lambda _: 1.0)
    built = section.build(collected, Charts())
    assert " Phases run at once: their times add up to 500 ms more than a step takes. " in built.lead
    [table] = [block.table for block in built.blocks if block.table is not None]
    assert {row[0].text: row[2].text for row in table.rows} == {"sample": "50 %", "train": "100 %", UNCOVERED: "0 %"}


def test_the_page_of_phases_one_after_the_other_says_nothing_of_phases_at_once(tmp_path: Path) -> None:
    collected = _run(tmp_path / "run", lambda _: [("sample", 0.0, 0.5, ""), ("train", 0.5, 1.0, "")], lambda _: 1.0)
    assert "at once" not in section.build(collected, Charts()).lead


def test_the_terminal_shows_the_length_of_a_step_in_which_phases_run_at_once(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    from otel_rl.live import terminal

    collected = _run(tmp_path / "run", _beside_training(0.5, 0.5), lambda _: 1.0)
    content = json.loads(essentials.build(collected, overview.examine(collected)))
    shown = " ".join(str(line) for line in terminal._head(terminal.View("run", content=content)))
    assert "  1 s a step" in shown


def test_a_notice_explains_nothing_that_has_a_cost() -> None:
    notice = Finding("slower_reward", Severity.NOTICE, "", "rewards", subject="judge")
    constant = Finding("slow_reward", Severity.WARNING, "", "rewards", subject="judge", cost=0.2)
    assert finding.unexplained([constant], [notice]) == [constant]
    notice.onset = 30
    slow = Finding("P7_slow_step", Severity.CRITICAL, "", "training", onset=30)
    assert health._unexplained([slow], [notice]) == [slow]
