"""What a program says of its rollouts, before and after their end, and which zeros are not the policy's."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest
from support.reward_readers import log_of, reward_means, tables_of

import otel_rl
from otel_rl.inference.engine_calls import EngineCall
from otel_rl.report.subjects.trajectories import groups
from otel_rl.telemetry import Scope, drops
from otel_rl.training import trajectories, trajectory_changes


@pytest.fixture
def records(recorded):
    """Gives the records of rollouts that have ended."""
    trajectories._forget()

    def found():
        trajectories.record()
        return recorded.events("rl.trajectories")

    yield found
    trajectories._forget()


def test_advantages_are_told_after_the_rollouts_and_the_report_computes_them_again(records):
    with otel_rl.step(1):
        rollouts = []
        for reward in (1.0, 0.0, 0.5, 0.5):
            with otel_rl.rollout(group_id="g") as it:
                otel_rl.reward("exact", reward)
            rollouts.append(it)
        for it, advantage in zip(rollouts, (0.5, -0.5, 0.0, 0.0), strict=True):
            it.train(advantage, estimator="dr_grpo")
    [record] = records()
    assert record.body["rl.rollout.trained"] == [True] * 4
    assert record.body["rl.rollout.advantage"] == [0.5, -0.5, 0.0, 0.0]
    assert record.attributes["rl.advantage.estimator"] == "dr_grpo"
    checked = groups.of_run(SimpleNamespace(tables=tables_of(log_of(record)), answers={})).checked
    assert (checked.samples, checked.differing) == (4, 0)


def test_a_discard_after_the_end_is_in_the_record(records):
    with otel_rl.step(1):
        with otel_rl.rollout("a") as first:
            pass
        with otel_rl.rollout("b") as second:
            pass
        first.discard("stale")
        second.succeed(False)
    [record] = records()
    assert record.body["rl.rollout.status"] == ["discarded", "finished"]
    assert record.body["rl.rollout.discard_reason"] == ["stale", None]
    assert record.body["rl.rollout.success"] == [None, False]


def test_what_comes_after_the_record_is_a_change_of_it(records, recorded):
    drops.reset()
    with otel_rl.step(1), otel_rl.rollout(rollout_id="r") as it:
        pass
    [record] = records()
    it.train(1.0, estimator="grpo")
    it.discard("late")
    trajectory_changes.record()
    assert "rl.rollout.trained" not in record.body
    [change] = recorded.events("rl.trajectories.changes")
    trace = f"{recorded.span('rl.rollout').context.trace_id:032x}"
    assert change.body == {
        "rl.rollout.id": ["r"],
        "rl.rollout.trace_id": [trace],
        "rl.rollout.trained": [True],
        "rl.rollout.advantage": [1.0],
        "rl.rollout.discard_reason": ["late"],
    }
    assert change.attributes["rl.advantage.estimator"] == "grpo"
    assert change.trace_id == 0
    assert drops.snapshot() == {}


@pytest.mark.parametrize(
    ("advantage", "estimator", "kept"),
    [
        (float("nan"), "grpo", None),
        pytest.param(10**400, "grpo", None, id="huge"),
        ("x", "grpo", None),
        (object(), "grpo", None),
        (1, "ppo", 1),
        (1, object(), 1),
    ],
)
def test_an_odd_advantage_or_formula_does_no_harm(records, advantage, estimator, kept):
    with otel_rl.step(1), otel_rl.rollout() as it:
        it.train(advantage, estimator=estimator)
    [record] = records()
    assert record.body["rl.rollout.trained"] == [True]
    assert record.body.get("rl.rollout.advantage", [None]) == [kept]
    assert "rl.advantage.estimator" not in record.attributes


def test_before_its_first_block_and_without_telemetry_nothing_happens(monkeypatch):
    it = otel_rl.rollout()
    it.train(1.0)
    it.discard("x")
    it.succeed()
    monkeypatch.setattr(otel_rl, "_enabled", lambda: False)
    with it:
        it.train(1.0)
    it.succeed()


def test_a_kept_rollout_holds_no_span_and_nothing_of_its_block(recorded):
    class Payload:
        """Notices its end."""

    with otel_rl.rollout() as it:
        payload = Payload()
        alive = weakref.ref(payload)
        with otel_rl.tool("search", arguments=payload):
            pass
    del payload
    gc.collect()
    assert alive() is None
    assert type(it._ended).__name__ == "OpenTrajectory"


def failing_tool():
    with otel_rl.tool("search") as call:
        call.fail("timeout")


def failing_model():
    with otel_rl.llm("m") as call:
        call.fail("timeout")


def failing_span():
    with otel_rl.span("sandbox") as work:
        work.fail("timeout")


def aborted_request():
    call = EngineCall(Scope("vllm"), "text_completion", "vllm", "m")
    call.requests.add(5, 2, ["abort"])
    call.finish()


def aborted_answer():
    with otel_rl.llm("m") as call:
        call.finish("abort")


FAILURES = [failing_tool, failing_model, failing_span, aborted_request, aborted_answer]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_a_zero_is_suspect_where_something_in_the_rollout_failed(records, failure, reward):
    with otel_rl.rollout():
        failure()
        otel_rl.reward("exact", reward)
    [record] = records()
    assert record.body.get("rl.rollout.suspect", [None]) == [True if reward == 0 else None]


def test_a_zero_of_a_rollout_that_failed_itself_is_suspect(records):
    with otel_rl.rollout() as it:
        otel_rl.reward("exact", 0.0)
        it.fail("timeout")

    @otel_rl.rollout()
    def too_slow():
        otel_rl.reward("exact", 0.0)
        raise TimeoutError

    with pytest.raises(TimeoutError):
        too_slow()
    with otel_rl.rollout():
        otel_rl.reward("exact", 0.0)
    found = [one for record in records() for one in record.body["rl.rollout.suspect"]]
    assert found == [True, True, None]


def test_failed_spans_are_counted(records, recorded):
    with otel_rl.rollout():
        failing_span()
    assert records()[0].body["rl.rollout.span_errors"] == [1]
    assert recorded.span("rl.rollout").attributes["rl.rollout.span_errors"] == 1


@pytest.mark.parametrize("is_late", [False, True])
def test_the_means_of_a_step_know_what_is_said_after_the_rollout(recorded, records, is_late):
    with otel_rl.step(1):
        for number in range(4):
            with otel_rl.rollout(group_id="g") as it:
                otel_rl.reward("exact", float(number))
                if not is_late:
                    judge(it, number)
            if is_late:
                judge(it, number)

    means = reward_means(recorded)[1]
    assert means["reward"] == 1.0
    assert means["success_rate"] == pytest.approx(1 / 3)


def judge(rollout, number):
    rollout.succeed(number > 1)
    if number == 3:
        rollout.discard("too_long")


def test_an_estimator_that_is_no_text_is_none(records):
    with otel_rl.step(1):
        with otel_rl.rollout() as it:
            otel_rl.reward("exact", 1.0)
        it.train(0.5, estimator=["grpo"])

    assert records()[0].body["rl.rollout.advantage"] == [0.5]
