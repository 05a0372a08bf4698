"""Rewards of turns, weights, parts and success: on events, in records and in the means of a step."""

from __future__ import annotations

import contextvars
import math

import numpy as np
import pytest
from support.reward_readers import reward_means

import otel_rl
from otel_rl.telemetry import drops
from otel_rl.telemetry.open_trajectory import MAXIMUM_TURNS
from otel_rl.training import trajectories


@pytest.fixture
def bodies(recorded):
    """Gives the bodies of the records of rollouts that have ended."""
    trajectories._forget()

    def found():
        trajectories.record()
        return [record.body for record in recorded.events("rl.trajectories")]

    yield found
    trajectories._forget()


def answer():
    with otel_rl.llm("m") as call:
        call.usage(output_tokens=1)


def test_turns_are_numbered_by_the_answers_of_the_model_and_rewarded_one_by_one(recorded, bodies):
    with otel_rl.rollout():
        answer()
        with otel_rl.tool("search"):
            pass
        otel_rl.reward("progress", 0.25, turn="last")
        with otel_rl.llm("m") as failing:
            failing.fail("timeout")
        answer()
        answer()
        otel_rl.reward("progress", 0.5, turn="last")
        otel_rl.reward("outcome", 1.0)
    turns = [span.attributes.get("rl.rollout.turn") for span in recorded.spans if span.name == "chat m"]
    assert turns == [1, None, 2, 3]
    assert recorded.span("execute_tool search").attributes["rl.rollout.turn"] == 1
    events = recorded.events("gen_ai.evaluation.result")
    assert [event.attributes.get("rl.rollout.turn") for event in events] == [1, 3, None]
    [body] = bodies()
    assert body["rl.rollout.turn_rewards"] == [[0.25, None, 0.5]]
    assert body["rl.rollout.cumulative_rewards"] == [[0.25, 0.25, 0.75]]
    assert body["rl.rollout.reward"] == [1.75]
    assert dict(zip(body["rl.reward.names"], body["rl.reward.scores"], strict=True)) == {
        "progress": [0.75],
        "outcome": [1.0],
    }
    assert "rl.reward.weights" not in body


def test_rows_of_different_numbers_of_turns_share_a_record(bodies):
    with otel_rl.step(1):
        for turns in (2, 0, 1):
            with otel_rl.rollout():
                for turn in range(1, turns + 1):
                    otel_rl.reward("step", turn, turn=turn)
    [body] = bodies()
    assert body["rl.rollout.turn_rewards"] == [[1.0, 2.0], None, [1.0]]


@pytest.mark.parametrize(
    "turn",
    [
        np.ones(3),
        pytest.param(10**400, id="huge"),
        0,
        -1,
        math.nan,
        math.inf,
        "first",
        object(),
        MAXIMUM_TURNS + 1,
        10**30,
    ],
)
def test_a_turn_that_cannot_be_counts_for_the_whole(recorded, bodies, turn):
    with otel_rl.rollout():
        otel_rl.reward("step", 1.0, turn=turn)
    [body] = bodies()
    assert body["rl.rollout.reward"] == [1.0]
    assert "rl.rollout.turn_rewards" not in body


def test_a_weight_counts_in_the_reward_and_not_in_the_score(recorded, bodies):
    with otel_rl.step(1):
        for exact in (1.0, 0.0):
            with otel_rl.rollout():
                otel_rl.reward("exact", exact)
                otel_rl.reward("format", 1.0, weight=0.25)
    [body] = bodies()
    assert body["rl.rollout.reward"] == [1.25, 0.25]
    assert body["rl.reward.names"] == ["exact", "format"]
    assert body["rl.reward.scores"] == [[1.0, 0.0], [1.0, 1.0]]
    assert body["rl.reward.weights"] == [1.0, 0.25]
    events = recorded.events("gen_ai.evaluation.result")
    assert [event.attributes.get("rl.reward.weight") for event in events] == [None, 0.25, None, 0.25]
    means = reward_means(recorded)[1]
    assert means["reward"] == 0.75
    assert means["rewards/format/mean"] == 1.0


def test_parts_have_means_of_their_own_and_count_in_no_reward(recorded, bodies):
    with otel_rl.step(1):
        for style in (0.5, 1.0):
            with otel_rl.rollout():
                otel_rl.reward("quality", 1.0, parts={"style": style, "length": 0.0})
    [body] = bodies()
    assert body["rl.rollout.reward"] == [1.0, 1.0]
    assert body["rl.reward.names"] == ["quality", "quality/style", "quality/length"]
    assert body["rl.reward.weights"] == [1.0, 0.0, 0.0]
    means = reward_means(recorded)[1]
    assert means["rewards/quality/style/mean"] == 0.75
    assert means["reward"] == 1.0
    points = recorded.metrics()["rl.reward.score"]
    assert {point.attributes["rl.reward.name"]: point.sum for point in points}["quality/style"] == 1.5


def test_a_score_and_its_parts_outside_of_a_rollout_are_events_and_in_no_mean(recorded):
    with otel_rl.step(1):
        otel_rl.reward("quality", 1.0, weight=0.5, parts={"style": 0.25})
    events = recorded.events("gen_ai.evaluation.result")
    assert [event.attributes["gen_ai.evaluation.score.value"] for event in events] == [1.0, 0.25]
    assert [event.attributes["rl.reward.weight"] for event in events] == [0.5, 0.0]
    assert reward_means(recorded) == {}


def test_parts_without_a_score_are_recorded_and_too_many_are_counted(recorded, bodies):
    drops.reset()
    with otel_rl.rollout():
        otel_rl.reward("quality", None, parts={f"p{number}": 1.0 for number in range(20)})
        otel_rl.reward("other", 1.0, parts=[1.0])
        otel_rl.reward("third", 1.0, parts={"good": 1.0, "bad": "x", "none": None})
    [body] = bodies()
    assert body["rl.rollout.reward"] == [2.0]
    assert len([name for name in body["rl.reward.names"] if name.startswith("quality/")]) == 16
    assert "third/good" in body["rl.reward.names"]
    assert drops.snapshot() == {("metrics", "reward_part_limit"): 4, ("metrics", "unsupported_type"): 2}


@pytest.mark.parametrize("weight", [pytest.param(10**400, id="huge"), np.ones(3), math.nan, "heavy", None, object()])
def test_a_weight_that_is_none_counts_as_one(recorded, bodies, weight):
    with otel_rl.rollout():
        otel_rl.reward("exact", 0.5, weight=weight)
    assert bodies()[0]["rl.rollout.reward"] == [0.5]


def test_success_is_in_the_record_on_the_span_and_a_rate_per_step(recorded, bodies):
    with otel_rl.step(1):
        with otel_rl.rollout("a") as it:
            it.succeed()
        with otel_rl.rollout("b"):
            otel_rl.reward("exact", 0.0, success=False)
        with otel_rl.rollout("c"):
            otel_rl.reward("exact", None, success=True)
        with otel_rl.rollout("d"):
            pass
    [body] = bodies()
    assert body["rl.rollout.success"] == [True, False, True, None]
    assert reward_means(recorded)[1]["success_rate"] == pytest.approx(2 / 3)
    spans = {span.attributes["rl.rollout.id"]: span for span in recorded.spans if span.name == "rl.rollout"}
    assert spans["b"].attributes["rl.rollout.success"] is False
    assert "rl.rollout.success" not in spans["d"].attributes


def test_a_truth_value_that_cannot_be_asked_reaches_nobody(recorded, bodies, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")

    class Undecided:
        def __bool__(self):
            raise ValueError

    with otel_rl.rollout() as it:
        it.succeed(Undecided())
        otel_rl.reward("exact", 1.0, success=Undecided())
    [body] = bodies()
    assert "rl.rollout.success" not in body
    assert body["rl.rollout.reward"] == [1.0]


def test_many_values_of_rollouts_leave_their_reward_known(recorded):
    with otel_rl.step(1):
        for first in (0, 32):
            with otel_rl.rollout():
                otel_rl.reward("exact", 0.5)
                for number in range(first, first + 32):
                    otel_rl.rollout_metric(f"m{number}", 1)
    assert reward_means(recorded)[1]["reward"] == 0.5


def test_scores_of_one_name_with_several_weights_have_none(bodies):
    with otel_rl.rollout():
        otel_rl.reward("exact", 1.0, weight=0.5)
        otel_rl.reward("exact", 1.0)
        otel_rl.reward("form", 1.0, weight=0.25)

    [body] = bodies()
    assert body["rl.rollout.reward"] == [1.75]
    assert dict(zip(body["rl.reward.names"], body["rl.reward.weights"], strict=True)) == {"exact": None, "form": 0.25}


def test_a_score_of_a_task_that_outlives_its_rollout_is_no_part_of_the_step_s_reward(recorded, bodies):
    with otel_rl.step(1):
        with otel_rl.rollout():
            otel_rl.reward("exact", 1.0)
            outlived = contextvars.copy_context()
        outlived.run(otel_rl.reward, "exact", 5.0)

    assert reward_means(recorded)[1]["reward"] == 1.0
