"""Rewards and ids of any type: defined, and the program never notices."""

from __future__ import annotations

import math

import numpy as np
import pytest

import otel_rl
from otel_rl.api import failure_names, user_messages
from otel_rl.telemetry import Scope, drops
from otel_rl.training import rewards

_scope = Scope("test")


class Failing:
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__

    def __float__(self):
        raise RuntimeError("no number")


def scores(recorded, name):
    points = [
        point for point in recorded.metrics().get("rl.reward.score", ()) if point.attributes["rl.reward.name"] == name
    ]
    return (points[0].count, points[0].sum) if points else (0, 0.0)


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (1, 1.0),
        (0.5, 0.5),
        (True, 1.0),
        (False, 0.0),
        (np.float32(0.5), 0.5),
        (np.int64(2), 2.0),
        (np.array(0.25), 0.25),
        (np.array([0.25]), 0.25),
    ],
)
def test_numbers_and_truth_values_are_scores(recorded, value, score):
    drops.reset()
    otel_rl.reward("numbers", value)

    [event] = recorded.events("gen_ai.evaluation.result")
    assert event.attributes["gen_ai.evaluation.score.value"] == score
    assert scores(recorded, "numbers") == (1, score)
    assert drops.snapshot() == {}


def test_a_tensor_of_one_element_in_the_hosts_memory_is_a_score(recorded):
    torch = pytest.importorskip("torch")
    for value in (torch.tensor(0.5), torch.tensor([0.5]), torch.tensor(0.5, dtype=torch.bfloat16)):
        otel_rl.reward("tensors", value)

    assert scores(recorded, "tensors") == (3, 1.5)


def test_none_is_no_score_and_nothing_lost(recorded):
    drops.reset()
    otel_rl.reward("none", None)

    assert recorded.events("gen_ai.evaluation.result") == []
    assert drops.snapshot() == {}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_a_score_that_is_not_finite_is_in_the_event_only(recorded, value):
    drops.reset()
    with otel_rl.rollout():
        otel_rl.reward("infinite", value)
        otel_rl.reward("infinite", 1.0)

    first, _ = recorded.events("gen_ai.evaluation.result")
    assert str(first.attributes["gen_ai.evaluation.score.value"]) == str(float(value))
    assert scores(recorded, "infinite") == (1, 1.0)
    assert recorded.span("rl.rollout").attributes["rl.rollout.reward"] == 1.0
    assert drops.snapshot()["metrics", "non_finite"] == 1


@pytest.mark.parametrize("value", [{"style": 0.5}, [1.0], "0.5", object(), np.ones(3), 1j, Failing()])
def test_what_is_no_number_is_dropped_and_counted(recorded, value):
    drops.reset()
    otel_rl.reward("other", value)

    assert recorded.events("gen_ai.evaluation.result") == []
    assert drops.snapshot()["metrics", "unsupported_type"] == 1


def test_scores_of_a_batch_leave_out_those_that_do_not_apply(recorded):
    drops.reset()
    rewards.record(_scope, {"batch": [1, None, math.nan, np.float32(0.5), True, {"a": 1}, math.inf]})

    assert scores(recorded, "batch") == (3, 2.5)
    assert drops.snapshot() == {("metrics", "unsupported_type"): 1, ("metrics", "non_finite"): 1}


@pytest.mark.parametrize("value", [7, 7.5, True, b"bytes", np.int64(7), ("a", 1), {"a": 1}, "\ud800", object()])
def test_ids_of_any_type_open_a_rollout(recorded, value):
    with otel_rl.rollout(value, sample_id=value, group_id=value, policy_version=value):
        pass

    assert recorded.span("rl.rollout").attributes["rl.rollout.id"]


def test_an_id_that_is_too_long_is_recorded_as_a_hash_and_counted(recorded):
    drops.reset()
    for text in ("x" * 9999, "x" * 9999, "x" * 9998):
        with otel_rl.rollout(text):
            pass

    first, same, other = (span.attributes["rl.rollout.id"] for span in recorded.spans if span.name == "rl.rollout")
    assert first == same != other
    assert first.startswith("hash-")
    assert drops.snapshot()["context", "baggage_value_too_long"] == 3


@pytest.mark.parametrize(
    ("given", "expected"),
    [("12", 12), (np.int64(3), 3), (4.0, 4), ([7], 1), ("twelve", 1), (math.nan, 1), (1 << 70, 1), (2.5, 1), (None, 1)],
)
def test_an_iteration_of_any_type_opens_a_rollout(recorded, given, expected):
    with otel_rl.step(1), otel_rl.rollout("r", iteration=given):
        pass

    assert recorded.span("rl.rollout").attributes["rl.loop.iteration"] == expected


@pytest.mark.parametrize("turn", [0, -1, "first", 513, math.nan])
def test_a_reward_of_a_turn_that_is_none_counts_for_the_whole_with_a_word(recorded, capfd, turn):
    drops.reset()
    user_messages.forget()
    with otel_rl.rollout("r"):
        otel_rl.reward("exact", 1.0, turn=turn)

    assert recorded.span("rl.rollout").attributes["rl.rollout.reward"] == 1.0
    assert drops.snapshot()["metrics", "reward_turn"] == 1
    assert "counts for the whole rollout only" in capfd.readouterr().err


def test_a_text_is_no_name_of_a_failure(recorded, capfd):
    user_messages.forget()
    failure_names.forget()
    given = ["timeout", "wrong answer", "could not open the file of the user: " + "x" * 40, "line\nbreak", *range(40)]
    for kind in given:
        with otel_rl.rollout() as it:
            it.fail(kind)
        with otel_rl.tool("t") as call:
            call.fail(kind)

    for name in ("rl.rollout", "execute_tool t"):
        kinds = [span.attributes["error.type"] for span in recorded.spans if span.name == name]
        assert kinds[:4] == ["timeout", "wrong answer", "_OTHER", "_OTHER"]
        assert len(set(kinds)) == 33
    assert capfd.readouterr().err.count("short name") == 1
    failure_names.forget()


@pytest.mark.parametrize(("mode", "is_recorded"), [("EVENT_ONLY", True), ("SPAN_ONLY", True), ("NO_CONTENT", False)])
def test_an_explanation_stands_on_its_event_in_each_mode_of_content(recorded, monkeypatch, mode, is_recorded):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", mode)
    otel_rl.reward("exact", 1.0, explanation="because")

    [event] = recorded.events("gen_ai.evaluation.result")
    assert event.attributes.get("gen_ai.evaluation.explanation") == ("because" if is_recorded else None)


@pytest.mark.parametrize("value", [7, np.int64(7)])
def test_ids_that_are_numbers_are_recorded_as_text(recorded, value):
    with otel_rl.rollout(value, sample_id=value, group_id=value, policy_version=value):
        pass

    found = recorded.span("rl.rollout").attributes
    for key in ("rl.rollout.id", "rl.sample.id", "rl.group.id", "rl.policy.version"):
        assert found[key] == "7"


def test_an_id_without_a_text_leaves_the_program_alone(recorded, monkeypatch):
    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS")
    ran = False
    with otel_rl.rollout(Failing()):
        ran = True

    assert ran


def test_names_of_rewards_that_are_no_text_are_recorded_as_text(recorded):
    otel_rl.reward(7, 1.0)  # type: ignore[arg-type]

    [event] = recorded.events("gen_ai.evaluation.result")
    assert str(event.attributes["gen_ai.evaluation.name"]) == "7"


@pytest.mark.parametrize("iteration", [np.int64(3), True, 3.0, "3", None])
def test_numbers_of_steps_of_any_type_leave_the_program_alone(recorded, monkeypatch, iteration):
    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS")
    ran = False
    with otel_rl.step(iteration), otel_rl.phase("sample"):
        ran = True

    assert ran


def test_a_step_with_a_text_for_a_number_is_none_and_the_program_is_told_what_to_do(recorded, capfd):
    with otel_rl.step("warm-up"):
        pass
    for iteration in (np.int64(3), 4.0, np.float32(5)):
        with otel_rl.step(iteration):
            pass

    assert 'step "warm-up" is no number but a str, and is not recorded: number the steps' in capfd.readouterr().err
    steps = [span for span in recorded.spans if span.name == "rl.rank.step"]
    assert [span.attributes["rl.loop.iteration"] for span in steps] == [3, 4, 5]


def test_a_step_may_be_a_tensor_of_the_host_and_one_of_a_device_is_not_waited_for(recorded, capfd):
    torch = pytest.importorskip("torch")
    for iteration in (torch.tensor(6), torch.tensor(7.0), torch.tensor(7.5), torch.tensor(8, device="meta")):
        with otel_rl.step(iteration):
            pass

    steps = [span for span in recorded.spans if span.name == "rl.rank.step"]
    assert [span.attributes["rl.loop.iteration"] for span in steps] == [6, 7]
    fraction, device = capfd.readouterr().err.splitlines()
    assert "number the steps" in fraction
    assert "in the host's memory" in device


def test_a_score_that_is_too_large_for_a_float_costs_no_other(recorded):
    drops.reset()
    rewards.record(_scope, {"large": [1.0, 10**400, 2.0], "other": [3.0]})

    points = recorded.metrics()["rl.reward.score"]
    assert {point.attributes["rl.reward.name"]: (point.count, point.sum) for point in points} == {
        "large": (2, 3.0),
        "other": (1, 3.0),
    }
    assert drops.snapshot() == {("metrics", "non_finite"): 1}
