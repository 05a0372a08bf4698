"""Scores of a few samples of each batch of TRL's online trainers as events, without content."""

from __future__ import annotations

import pytest
from online_trainers import online_trainer

import otel_rl
from otel_rl.core import settings
from otel_rl.telemetry import deferral
from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE

EVENT = "gen_ai.evaluation.result"


def by_place(completions, **_):
    """The score of a sample is its place."""
    return [float(number) for number in range(len(completions))]


def odd(completions, **_):
    """Applies to every second sample only."""
    return [1.0 if number % 2 else None for number in range(len(completions))]


def train(kind, directory, **arguments):
    """Two steps with one batch of eight samples each."""
    given = {"per_device_train_batch_size": 8, "reward_weights": [2.0, 1.0], "max_steps": 2, **arguments}
    online_trainer(kind, directory, [by_place, odd], **given).train()
    deferral.drain_all()


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_chosen_samples_have_an_event_for_each_score_in_the_trace_of_the_step(instrumented, recorded, tmp_path, kind):
    train(kind, tmp_path)

    roots = {span.attributes["rl.loop.iteration"]: span for span in recorded.spans if span.name == "rl.loop"}
    for iteration in (1, 2):
        found = [one for one in recorded.events(EVENT) if one.attributes["rl.loop.iteration"] == iteration]
        reasons = {one.attributes["rl.rollout.id"]: one.attributes["rl.trajectory.reason"] for one in found}
        assert reasons[f"{iteration}-0"] == "lowest_reward"
        assert reasons[f"{iteration}-7"] == "highest_reward"
        assert 2 <= len(reasons) <= 5
        assert {one.trace_id for one in found} == {roots[iteration].context.trace_id}
        for sample in reasons:
            place = int(sample.partition("-")[2])
            scores = {
                one.attributes["gen_ai.evaluation.name"]: one
                for one in found
                if one.attributes["rl.rollout.id"] == sample
            }
            assert list(scores) == (["by_place", "odd"] if place % 2 else ["by_place"])
            first = scores["by_place"].attributes
            assert first["gen_ai.evaluation.score.value"] == place
            assert first["rl.reward.weight"] == 2.0
            assert first["rl.group.id"] == f"{iteration}-{place // 4}"
            assert first["rl.policy.version"] == str(iteration - 1)
        assert all(
            "rl.reward.weight" not in one.attributes
            for one in found
            if one.attributes["gen_ai.evaluation.name"] == "odd"
        )


def test_there_is_no_text_in_the_events(instrumented, recorded, tmp_path):
    train("grpo", tmp_path)

    allowed = {
        "gen_ai.evaluation.name",
        "gen_ai.evaluation.score.value",
        "rl.reward.weight",
        "rl.rollout.id",
        "rl.group.id",
        "rl.policy.version",
        "rl.loop.iteration",
        "rl.trajectory.reason",
        "rl.run.id",
        "rl.run.attempt",
        "rl.sampling.priority",
    }
    assert recorded.events(EVENT)
    for one in recorded.events(EVENT):
        assert set(one.attributes) <= allowed
        assert not one.body


@pytest.mark.parametrize(("most", "events"), [("0", 0), ("1", 2)])
def test_the_number_of_samples_is_a_setting(instrumented, recorded, tmp_path, monkeypatch, most, events):
    monkeypatch.setenv("OTEL_RL_EVALUATED_SAMPLES", most)
    settings.reset()
    try:
        train("grpo", tmp_path)
    finally:
        monkeypatch.undo()
        settings.reset()

    # The lowest reward is that of the first sample, which the second function does not score.
    assert len(recorded.events(EVENT)) == events
    assert recorded.events("rl.trajectories")


@pytest.mark.parametrize("mode", ["NO_CONTENT", "SPAN_ONLY"])
def test_a_decorated_reward_function_is_recorded_once_where_the_trainer_calls_it(
    instrumented, recorded, tmp_path, monkeypatch, mode
):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, mode)
    decorated = otel_rl.reward_function("mine")(by_place)
    online_trainer("grpo", tmp_path, [decorated, odd], per_device_train_batch_size=8, max_steps=2).train()
    deferral.drain_all()

    spans = [span for span in recorded.spans if "rl.reward.name" in span.attributes]
    assert [span.attributes["rl.reward.name"] for span in spans] == ["by_place", "odd"] * 2
    points = {point.attributes["rl.reward.name"]: point.count for point in recorded.metrics()["rl.reward.score"]}
    assert points == {"by_place": 16, "odd": 8}
    assert {one.attributes["gen_ai.evaluation.name"] for one in recorded.events(EVENT)} == {"by_place", "odd"}
    captured = [span.attributes.get("rl.reward.output") for span in spans]
    expected = "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]" if mode == "SPAN_ONLY" else None
    assert captured == [expected, None] * 2
    assert all(("rl.reward.input" in span.attributes) == (expected is not None) for span in spans[::2])
