"""The rules while steps run: gauge, events, several loops, forks, and errors that never reach the program."""

from __future__ import annotations

import contextvars
import itertools
from weakref import WeakSet

import pytest
from followed_rules import followed
from made_up_runs import run

import otel_rl
from otel_rl.api import operations
from otel_rl.core import stderr
from otel_rl.core.guard import RAISE_ENVIRONMENT_VARIABLE
from otel_rl.health import live, rule_table
from otel_rl.health.verdict import State
from otel_rl.process import process_identity
from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlHealthCodeValues as Code
from otel_rl.telemetry import Scope, deferral, progress
from otel_rl.telemetry.deferral import Moment
from otel_rl.training import scalars, steps
from otel_rl.training.guessed_loop import GuessedLoop
from otel_rl.training.scalars import ScalarSink, Source
from otel_rl.training.trainer_loop import TrainerLoop

_scope = Scope("test")
_numbers = itertools.count()
KL = Code.P3_KL_EXPLOSION


@pytest.fixture
def rules_file():
    return None


@pytest.fixture
def health(recorded, rules_file, monkeypatch):
    """The rules of a process, without what other tests have left."""
    found = live.LiveHealth(rules_file)
    sink = ScalarSink()
    monkeypatch.setattr(scalars, "sink", sink)
    # A gauge is registered once per process and scope: this test's own asks these rules.
    monkeypatch.setattr(live, "scope", Scope(f"health_{next(_numbers)}"))
    with followed(found, sink):
        yield found


@pytest.fixture
def trains(health):
    """Runs steps of a loop, each of which logs these values."""

    def train(values, loop=None, first=1):
        loop = loop or steps.Loop()
        for iteration, logged in enumerate(values, first):
            loop.begin(iteration, _scope)
            scalars.sink.log(_scope, Source.TRAINER, iteration, logged, iteration)
            loop.finish()
        return loop

    return train


def changed(recorded, code=None):
    return [
        dict(one.attributes)
        for one in recorded.events("rl.health.changed")
        if code in (None, one.attributes["rl.health.code"])
    ]


def gauge(recorded):
    return {one.attributes["rl.health.code"]: one.value for one in recorded.metrics()["rl.health"]}


def test_a_change_for_the_worse_is_an_event_with_onset_evidence_and_what_to_look_at(trains, recorded):
    trains([{"kl": 0.01}] * 10 + [{"kl": 7.0}] * 5)

    [event] = recorded.events("rl.health.changed")
    found = dict(event.attributes)
    assert found["rl.health.code"] == KL
    assert (found["rl.health.previous_state"], found["rl.health.state"]) == ("healthy", "critical")
    assert (found["rl.health.onset_iteration"], found["rl.loop.iteration"]) == (11, 13)
    assert (found["rl.health.metric"], found["rl.health.value"], found["rl.health.threshold"]) == ("kl", 7.0, 3.0)
    assert found["rl.health.evidence"] == "kl is 7 nat, threshold 3 nat, 0.01 nat in the first steps"
    assert "learning rate at the onset" in found["rl.health.next"]
    assert event.severity_text == "WARN"


def test_a_tool_that_fails_reaches_the_gauge_and_an_event_of_the_process_that_calls_it(health, recorded, monkeypatch):
    monkeypatch.setattr(progress, "_totals", {})
    progress.watch_calls(lambda _: None)
    try:
        for number in range(1, 9):
            with otel_rl.step(number):
                for _ in range(5):
                    with otel_rl.tool("search") as call:
                        call.fail("timeout")
    finally:
        progress.watch_calls(None)
    deferral.drain_all()

    assert gauge(recorded)[Code.FAILING_CALLS] == State.CRITICAL
    assert changed(recorded, Code.FAILING_CALLS)[-1]["rl.health.evidence"] == (
        "tool search fails in 100% of its calls, threshold 50%"
    )


def test_rollouts_of_an_engine_that_falls_behind_are_read_from_their_rows(health):
    loop = steps.Loop()
    for number in range(1, 16):
        step = loop.begin(number, _scope)
        behind = {"rl.rollout.status": ["finished"], "rl.rollout.versions_behind": [float(number)]}
        health.rows_recorded(step, behind, number)
        loop.finish()
    deferral.drain_all()
    assert health.states()[Code.STALE_ENGINE] == State.WARNING


@pytest.mark.parametrize("source", ["torch", "program"])
def test_a_loss_that_is_no_number_is_critical_by_guessed_steps_and_by_the_epochs_that_a_program_logs(
    health, recorded, source
):
    loop = GuessedLoop()
    for step in range(1, 61):
        loop.begin(step, _scope)
        loss = float("nan") if source == "torch" and step > 40 else 0.5
        scalars.sink.log(_scope, Source.TORCH, step, {"torch/loss": loss}, context=loop.step.context)
        loop.finish()
        if step % 10 == 0:
            loss = float("nan") if source == "program" and step > 20 else 0.4
            scalars.sink.log(_scope, Source.TENSORBOARD, step // 10, {"loss": loss})
    health.finish()

    found = changed(recorded, Code.NON_FINITE)
    onset, key = (41, "torch/loss") if source == "torch" else (3, "loss")
    assert {one["rl.health.metric"] for one in found} == {key}
    assert (found[-1]["rl.health.state"], found[-1]["rl.health.onset_iteration"]) == ("critical", onset)
    assert changed(recorded) == found
    assert gauge(recorded)[Code.NON_FINITE] == 2


def test_the_part_of_guessed_steps_that_became_slower_is_named(health, recorded):
    loop, at = GuessedLoop(), Moment(wall=10**18, counter=0.0)
    for step in range(1, 61):
        length = 0.2 if step <= 40 else 1.0
        loop.begin(step, _scope, at)
        loop.step.add_duration(spans.RL_FORWARD.type, _scope, length - 0.1)
        at = Moment(wall=at.wall + int(length * 1e9), counter=at.counter + length)
        loop.finish(at=at)

    found = changed(recorded, Code.P7_SLOW_STEP)[0]
    assert "; rl.forward takes 0.9 s of it, 0.1 s before" in found["rl.health.evidence"]


def test_the_end_of_it_is_an_event_too(trains, recorded):
    trains([{"kl": 0.01}] * 10 + [{"kl": 7.0}] * 5 + [{"kl": 0.01}] * 10)

    event = recorded.events("rl.health.changed")[-1]
    assert (event.attributes["rl.health.previous_state"], event.attributes["rl.health.state"]) == (
        "critical",
        "healthy",
    )
    assert (event.severity_text, event.attributes["rl.health.onset_iteration"]) == ("INFO", 11)


def test_a_healthy_run_has_no_events_and_a_gauge_for_each_rule(trains, recorded):
    trains(run(40))

    assert changed(recorded) == []
    states = gauge(recorded)
    assert len(states) == len(rule_table.RULES)
    assert (states[KL], states[Code.P6_VALIDATION_COLLAPSE], states[Code.STALENESS]) == (0, -1, -1)


def test_the_gauge_has_the_state_of_a_sick_run(trains, recorded):
    trains([{"kl": 7.0}] * 10)

    assert gauge(recorded)[KL] == 2


def test_the_final_states_are_told_at_the_end(trains, health, recorded):
    trains([{"kl": 7.0, "completions/clipped_ratio": 0.1}] * 10)
    health.finish()

    [event] = recorded.events("rl.health.final")
    assert list(event.attributes["rl.health.critical"]) == [KL]
    assert Code.P9_TRUNCATION in event.attributes["rl.health.healthy"]
    assert Code.STALENESS in event.attributes["rl.health.unobserved"]
    assert event.attributes["rl.loop.iteration"] == 10


def test_a_step_that_is_open_at_the_end_is_judged_before_the_final_states_are_told(health, recorded, monkeypatch):
    monkeypatch.setattr(operations, "sink", scalars.sink)
    for iteration in range(1, 4):
        with otel_rl.step(iteration):
            otel_rl.metric("loss", 0.5)
    open_step = otel_rl.step(4)
    open_step.__enter__()
    otel_rl.metric("loss", float("nan"))
    health.finish()

    [event] = recorded.events("rl.health.final")
    assert list(event.attributes["rl.health.warning"]) == [Code.NON_FINITE]
    assert [one["rl.health.code"] for one in changed(recorded)] == [Code.NON_FINITE]


def test_values_of_the_producer_api_are_judged(health, recorded):
    loop = steps.Loop()
    for iteration in range(1, 20):
        loop.begin(iteration, _scope)
        scalars.sink.measure(_scope, Source.PRODUCER, iteration, "kl", 7.0, loop=loop)
        loop.finish()

    assert [one["rl.health.code"] for one in changed(recorded)] == [KL]


@pytest.fixture
def two_loops(health, monkeypatch):
    """An actor that has trained, and a critic in the middle of a step with a number of its own."""
    monkeypatch.setattr(operations, "sink", scalars.sink)
    monkeypatch.setattr(steps, "_begun", WeakSet())
    for iteration in range(1, 31):
        with otel_rl.step(iteration, loop="actor of two"):
            otel_rl.metric("kl", 0.05)
    critic = steps.loop_for_next_step("critic of two")
    contextvars.Context().run(critic.begin, 700, _scope)
    yield
    contextvars.Context().run(critic.finish)


def monitor(health, name):
    deferral.drain_all()
    [found] = [followed.monitor for loop, followed in health._loops.items() if loop.name == name]
    return found


def test_a_value_between_the_steps_of_one_loop_leaves_the_rules_of_others_as_they_were(two_loops, health):
    before = monitor(health, "actor of two").states()
    otel_rl.metric("kl", 0.05)

    assert monitor(health, "actor of two").last == 30
    assert monitor(health, "actor of two").states() == before
    assert [loop.name for loop in health._loops] == ["actor of two"]
    assert before[KL] == State.HEALTHY


def test_a_value_between_two_steps_of_a_trainer_is_of_its_last_one_whatever_goes_on_beside_it(two_loops, health):
    trainer = TrainerLoop("trainer beside others").enter()
    trainer.begin_step(3, _scope)
    trainer.finish_step()
    otel_rl.metric("kl", 0.05)
    trainer.leave()

    assert monitor(health, "trainer beside others").last == 3
    assert monitor(health, "actor of two").last == 30


def test_values_between_the_steps_of_the_only_loop_are_judged(health, recorded, monkeypatch):
    monkeypatch.setattr(operations, "sink", scalars.sink)
    monkeypatch.setattr(steps, "_begun", WeakSet())
    for iteration in range(1, 20):
        with otel_rl.step(iteration, loop="alone"):
            pass
        otel_rl.metric("kl", 7.0)
    deferral.drain_all()

    assert [one["rl.health.code"] for one in changed(recorded)] == [KL]


def test_a_rank_that_does_not_lead_judges_nothing(trains, health, recorded, monkeypatch):
    monkeypatch.setattr(
        process_identity, "_current", process_identity.ProcessIdentity(id="run", rank=1, world_size=2, leads=False)
    )
    trains([{"kl": 7.0}] * 20)

    assert changed(recorded) == []
    assert health.states() == {}


def test_each_loop_is_judged_on_its_own_and_the_gauge_has_the_worst(trains, health, recorded):
    actor, critic = steps.Loop("actor"), steps.Loop("critic")
    for iteration in range(1, 16):
        trains([{"kl": 7.0, "entropy": 1.0}], actor, iteration)
        trains([{"kl": 0.01}], critic, iteration)

    assert [one["rl.loop.name"] for one in changed(recorded)] == ["actor"]
    assert gauge(recorded)[KL] == 2


def test_a_loop_that_has_ended_long_ago_is_not_in_the_gauge(trains, health):
    trains([{"kl": 7.0}] * 10)
    assert health.states()[KL] == 2
    trains([{"kl": 0.01}] * 150)

    assert health.states()[KL] == 0


def test_many_loops_are_bounded(trains, health):
    for _ in range(50):
        trains([{"kl": 0.01}] * 2)

    assert len(health._loops) == live.MAXIMUM_LOOPS


def test_steps_that_begin_again_make_the_state_unobserved_until_it_is_judged_anew(trains, health, recorded):
    loop = trains([{"kl": 7.0}] * 10)
    trains([{"kl": 0.01}] * 2, loop, 5)
    assert health.states()[KL] == -1
    trains([{"kl": 0.01}] * 5, loop, 7)

    assert health.states()[KL] == 0
    assert [one["rl.health.state"] for one in changed(recorded, KL)] == ["critical", "unobserved"]


def test_live_and_from_the_same_calls_alone_the_verdicts_are_the_same(trains, health, recorded):
    from otel_rl.health.monitor import Monitor
    from otel_rl.health.user_rules import defaults

    values = run(60, kl=lambda step: 0.01 if step < 30 else 7.0, zero=lambda step: 0.1 if step < 40 else 1.0)
    trains(values)
    alone = Monitor(defaults())
    for step, logged in enumerate(values, 1):
        alone.log(step, logged, step)
        alone.step(step)

    [followed] = health._loops.values()
    # Of what is not among the values: lengths of steps, and calls of the tests before in this process.
    others = (Code.P7_SLOW_STEP, Code.FAILING_CALLS, Code.SLOW_CALLS, Code.STALE_ENGINE)
    assert [one for one in followed.monitor.verdicts() if one.code not in others] == [
        one for one in alone.verdicts() if one.code not in others
    ]


def test_an_error_in_a_rule_never_reaches_the_program(trains, health, monkeypatch):
    monkeypatch.setenv(RAISE_ENVIRONMENT_VARIABLE, "0")

    def breaks(*_):
        raise RuntimeError("ours")

    trains([{"kl": 0.01}])
    [followed] = health._loops.values()
    monkeypatch.setattr(followed.monitor, "log", breaks)
    monkeypatch.setattr(followed.monitor, "step", breaks)
    trains([{"kl": 0.01}] * 3, first=2, loop=next(iter(health._loops)))


def test_recordings_wait_for_the_thread_that_makes_them(trains, health, recorded, io_thread):
    trains([{"kl": 7.0}] * 10)
    io_thread.flush_now()
    deferral.drain_all()

    assert health.states()[KL] == 2


def test_a_forked_child_follows_nothing_of_its_parent(trains, health):
    trains([{"kl": 7.0}] * 10)
    health.forked()

    assert health.states() == {}
    trains([{"kl": 0.01}] * 5)
    assert health.states()[KL] == 0


@pytest.mark.parametrize("rules_file", ["/no/such/rules.yaml"])
def test_a_bad_rules_file_is_told_once_and_the_defaults_judge(trains, health, monkeypatch):
    lines = []
    monkeypatch.setattr(stderr, "write_line", lines.append)
    trains([{"kl": 7.0}] * 10)
    trains([{"kl": 7.0}] * 10)

    [line] = lines
    assert line.startswith("otel-rl: OTEL_RL_HEALTH_RULES: /no/such/rules.yaml: No such file or directory")
    assert health.states()[KL] == 2
