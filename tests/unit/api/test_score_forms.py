"""Objects and dictionaries that stand for scores: those of Model Studio's processors, by their documented fields."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.reward_readers import log_of, rows

import otel_rl
from otel_rl.telemetry import drops
from otel_rl.training import trajectories


def output(score, **fields):
    return SimpleNamespace(reward=SimpleNamespace(reward_score=score, reward_metrics=None), **fields)


def scores_of(recorded, result, **given):
    trajectories._forget()
    with otel_rl.rollout(rollout_id="r"):
        otel_rl.reward_function("judge", **given)(lambda: result)()
    trajectories.record()
    [row] = rows(*[log_of(one) for one in recorded.events("rl.trajectories")])
    return row.scores, row.get("rl.rollout.reward")


@pytest.mark.parametrize(
    "result",
    [
        output(0.5),
        output(0.5, status="success", error=None),
        {"reward": {"reward_score": 0.5, "reward_metrics": {}}},
        SimpleNamespace(reward_score=0.5),
        {"score": 0.5},
        [output(0.5)],
        SimpleNamespace(reward=SimpleNamespace(rewards=[SimpleNamespace(reward_score=0.5)])),
    ],
)
def test_a_score_is_read_from_any_of_these(recorded, result):
    assert scores_of(recorded, result, weight=2.0) == ({"judge": 0.5}, 1.0)


def test_metrics_of_a_reward_are_its_parts_as_far_as_they_are_numbers(recorded):
    result = {"reward": {"reward_score": 1.0, "reward_metrics": {"length": 3, "note": "long"}}}
    assert scores_of(recorded, result) == ({"judge": 1.0, "judge/length": 3.0}, 1.0)


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (output(0.0, status="failed", error="secret", error_code="JudgeTimeout"), "JudgeTimeout"),
        (output(0.0, status="failed", error=None), "failed"),
    ],
)
def test_a_result_that_reports_a_failure_is_no_score(recorded, result, kind):
    assert scores_of(recorded, result) == ({}, None)
    assert recorded.span("rl.reward").attributes["error.type"] == kind


@pytest.mark.parametrize("result", [output("high"), SimpleNamespace(reward=1.0), {"reward": {}}, {"status": "failed"}])
def test_what_has_no_score_in_its_place_is_refused_and_counted(recorded, result):
    before = drops.snapshot().get(("metrics", "unsupported_type"), 0)
    assert scores_of(recorded, result) == ({}, None)
    assert drops.snapshot()["metrics", "unsupported_type"] == before + 1
    assert "error.type" not in recorded.span("rl.reward").attributes


@pytest.mark.parametrize(("weight", "shown"), [(1.0, None), (0.25, 0.25), ("heavy", None)])
def test_the_span_of_a_reward_has_its_weight_if_that_is_a_number_other_than_one(recorded, weight, shown):
    with otel_rl.rollout(rollout_id="r"):
        otel_rl.reward_function("judge", weight=weight)(lambda: 1.0)()
    assert recorded.span("rl.reward").attributes.get("rl.reward.weight") == shown
