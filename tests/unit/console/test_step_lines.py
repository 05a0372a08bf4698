"""A line per step: what it says, how wide it is, how often it comes, and that nothing of OpenTelemetry is between."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

import otel_rl
from otel_rl.console import steps as console_steps
from otel_rl.console.line import StepsSummary, text
from otel_rl.console.steps import StepConsole
from otel_rl.core import clock, settings
from otel_rl.pipeline import sdk_logging
from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlPhaseValues
from otel_rl.telemetry import Scope, deferral
from otel_rl.training import scalars, steps, trajectories
from otel_rl.training.parts import Part
from otel_rl.training.scalars import ScalarSink, Source
from otel_rl.training.trainer_loop import TrainerLoop

_scope = Scope("test")
FULL = StepsSummary(
    first=7,
    last=7,
    steps=1,
    seconds=2.0,
    phases={"sample": 1.2, "train": 0.6, "reward": 0.01, "sync": 0.1},
    values={"reward": 0.5, "reward_std": 0.25, "loss": 0.0123456, "kl": 0.04, "completions/mean_length": 210.0},
    tokens=5000,
)


@pytest.fixture
def lines():
    return []


@pytest.fixture
def console(recorded, lines, monkeypatch):
    """A console of the process, without what other tests have left."""
    found = StepConsole(lines.append)
    sink = ScalarSink()
    monkeypatch.setattr(scalars, "sink", sink)
    monkeypatch.setattr(trajectories.listeners, "callbacks", [found.rows_recorded])
    sink.listeners.add(found.logged)
    steps.listeners.add(found.step_recorded)
    yield found
    steps.listeners.remove(found.step_recorded)


def test_a_line_has_reward_learning_time_rollout_and_engine_in_this_order():
    assert text(FULL) == (
        "step 7 | reward 0.5 std 0.25 | loss 0.01235 kl 0.04 | 2 s: sample 60%, train 30%, sync 5% | length 210"
        " | engine 5000 tokens, 2.5e+03/s"
    )


@pytest.mark.parametrize(
    ("phases", "waits", "said", "shorter"),
    [
        (
            {"train": 3.2, "optimizer": 0.2, "backward": 2.0, "forward": 0.8, "checkpoint": 0.01},
            0.8,
            "data wait 17%, train 67% (forward 17%, backward 42%, optimizer 4%)",
            "data wait 17%, train 67%",
        ),
        (
            {"backward": 2.0, "forward": 1.0, "data_wait": 0.4, "optimizer": 0.6},
            0.0,
            "data wait 10%, forward 25%, backward 50%, optimizer 15%",
            "forward 25%, backward 50%, optimizer 15%",
        ),
        (
            {"train": 1.0, "reward": 0.4, "sample": 2.0, "generate": 1.6, "log_probs": 0.2, "sync": 0.2},
            0.0,
            "sample 50%, reward 10%, train 25%, sync 5%",
            "sample 50%, reward 10%, train 25%",
        ),
    ],
)
def test_phases_come_in_the_order_of_a_step_with_their_parts_and_fewer_where_there_is_no_room(
    phases, waits, said, shorter
):
    summary = StepsSummary(3, 3, 1, 4.0, waits, phases)
    line = text(summary)
    assert line == f"step 3 | 4 s: {said}"
    assert text(summary, len(line) - 1) == f"step 3 | 4 s: {shorter}"


@pytest.mark.parametrize("phase", [value for name, value in vars(RlPhaseValues).items() if name.isupper()])
def test_every_phase_of_the_registry_has_a_place(phase):
    assert text(StepsSummary(3, 3, 1, 4.0, 0.0, {phase: 1.0})).endswith(f"4 s: {phase.replace('_', ' ')} 25%")


def test_the_wait_for_the_batch_and_the_parts_of_phases_are_on_the_line(console, lines, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(clock, "counter", lambda: now[0])
    trainer = TrainerLoop().enter()
    since = deferral.now()
    now[0] += 1
    trainer.begin_step(1, _scope, since)
    with otel_rl.phase("train"):
        part = Part(spans.RL_BACKWARD, _scope, trainer.step, has_span=False)
        now[0] += 3
        part.close()
    trainer.leave()
    console.write()
    assert lines == ["step 1 | 3 s: data wait 25%, train 75% (backward 75%)"]


def test_a_narrow_terminal_gets_the_first_categories_whole():
    assert text(FULL, 60) == "step 7 | reward 0.5 std 0.25 | loss 0.01235 kl 0.04"
    assert text(FULL, 30) == "step 7 | reward 0.5 std 0.25"
    assert text(FULL, 5) == "step "


def test_what_was_not_logged_is_not_there():
    assert text(StepsSummary(3, 3, 1, 0.25)) == "step 3 | 250 ms"


def test_a_step_says_its_values_and_phases(console, lines):
    with otel_rl.step(12):
        with otel_rl.phase("train"):
            scalars.sink.log(_scope, Source.TRAINER, 12, {"loss": 0.5, "custom/key": 3, "kl": float("nan")})
    console.write()
    [line] = lines
    assert line.startswith("step 12 | loss 0.5 kl nan | ")
    assert "train" in line


def test_rewards_of_a_loop_of_the_program_are_those_of_its_rollouts(console, lines):
    with otel_rl.step(1):
        for score in (0.0, 1.0):
            with otel_rl.rollout():
                otel_rl.reward("correct", score)
    console.write()
    assert lines[0].startswith("step 1 | reward 0.5 ")


def test_steps_of_less_than_a_second_share_a_line(console, lines, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(console_steps, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for iteration in range(1, 31):
        with otel_rl.step(iteration):
            pass
        console.write_due()
        now[0] += 0.25
    assert [line.partition(" |")[0] for line in lines] == ["step 1", *(f"steps {i}-{i + 3}" for i in range(2, 30, 4))]


def test_a_log_call_without_steps_has_a_line(console, lines):
    scalars.sink.log(_scope, Source.TRAINER, 2048, {"rollout/ep_rew_mean": 21.5, "time/fps": 900})
    console.write()
    assert lines == ["step 2048 | reward 21.5 | steps/s 900"]


@pytest.mark.parametrize("logs_first", [True, False])
def test_log_calls_that_count_something_else_do_not_number_a_line_of_steps(console, lines, logs_first):
    def log():
        scalars.sink.log(_scope, Source.TRAINER, 2048, {"rollout/ep_rew_mean": 21.5})

    if logs_first:
        log()
    for iteration in (11, 12):
        with otel_rl.step(iteration):
            pass
    if not logs_first:
        log()
    console.write()
    assert lines[0].startswith("steps 11-12 | reward 21.5 | ")


def test_nothing_waits_nothing_is_written(console, lines):
    console.write()
    assert lines == []


def test_only_the_leading_process_writes(console, lines, monkeypatch):
    monkeypatch.setattr(
        console_steps.process_identity, "current", lambda: SimpleNamespace(leads_training=False, algorithm="")
    )
    monkeypatch.setattr(console_steps.process_identity, "settled", lambda: True)
    scalars.sink.log(_scope, Source.TRAINER, 1, {"loss": 1})
    console.write()
    assert lines == []


def test_what_was_recorded_before_the_process_knew_that_it_leads_is_written_then(console, lines, monkeypatch):
    with monkeypatch.context() as unknown:
        unknown.setattr(
            console_steps.process_identity, "current", lambda: SimpleNamespace(leads_training=False, algorithm="")
        )
        unknown.setattr(console_steps.process_identity, "settled", lambda: False)
        scalars.sink.log(_scope, Source.TRAINER, 1, {"loss": 1})
        console.write()
    scalars.sink.log(_scope, Source.TRAINER, 2, {"loss": 2})
    console.write()
    assert lines == ["steps 1-2 | loss 2"]


def test_a_terminal_is_cleared_first_and_its_width_kept(console, lines, monkeypatch):
    monkeypatch.setattr(console_steps, "_width", lambda: 12)
    with otel_rl.step(1):
        scalars.sink.log(_scope, Source.TRAINER, 1, {"loss": 0.123456789})
    console.write()
    assert lines == ["\r\x1b[2Kstep 1"]


def test_lines_come_every_second_and_do_not_wait_for_an_export(io_thread, monkeypatch):
    monkeypatch.setattr(deferral, "is_prompt", False)
    assert not io_thread._posts_are_due() or not io_thread.tasks
    monkeypatch.setattr(deferral, "is_prompt", True)
    assert io_thread._posts_are_due()


@pytest.mark.parametrize("console", ["true", "false"], indirect=False)
def test_what_an_exporter_of_the_program_logs_is_kept_off_the_console(monkeypatch, console):
    monkeypatch.setenv("OTEL_RL_CONSOLE", console)
    settings.reset()
    try:
        record = logging.LogRecord("opentelemetry.exporter.otlp", logging.ERROR, "x.py", 1, "Failed", None, None)
        assert sdk_logging.Upstream()._is_ours(record) is (console == "true")
    finally:
        monkeypatch.undo()
        settings.reset()
