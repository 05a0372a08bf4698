"""Prompts and completions of a few samples of each batch of TRL's online trainers, where content is captured."""

from __future__ import annotations

import json
import math

import pytest
from jsonschema import Draft202012Validator
from online_trainers import online_trainer
from support import message_schemas

from otel_rl.inference import sample_messages
from otel_rl.instrumentors.trl import chosen_samples, sample_content
from otel_rl.instrumentors.trl.chosen_samples import SampleScores
from otel_rl.telemetry import deferral
from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE

made: list[str] = []


def by_place(completions, **_):
    """The reward of a sample is its place; keeps what the trainer made."""
    made.extend(one if isinstance(one, str) else one[0]["content"] for one in completions)
    return [float(number) for number in range(len(completions))]


def train(kind, directory, **arguments):
    made.clear()
    settings = {"per_device_train_batch_size": 8, "max_steps": 2, **arguments}
    online_trainer(kind, directory, [by_place], **settings).train()
    deferral.drain_all()


@pytest.mark.parametrize("mode", ["SPAN_ONLY", "EVENT_ONLY"])
@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_lowest_and_highest_reward_and_one_more_can_be_read(instrumented, recorded, tmp_path, monkeypatch, kind, mode):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, mode)
    train(kind, tmp_path)

    found = recorded.events("rl.trajectory.content")
    for iteration in (1, 2):
        in_step = [one for one in found if one.attributes["rl.loop.iteration"] == iteration]
        of_step = {one.attributes["rl.rollout.id"]: one for one in in_step}
        reasons = {key: one.attributes["rl.trajectory.reason"] for key, one in of_step.items()}
        assert reasons[f"{iteration}-0"] == "lowest_reward"
        assert reasons[f"{iteration}-7"] == "highest_reward"
        assert len(of_step) <= 5
        for key, one in of_step.items():
            place = int(key.partition("-")[2])
            assert one.attributes["rl.rollout.reward"] == place
            [said] = json.loads(one.attributes["gen_ai.output.messages"])
            assert said["parts"] == [{"type": "text", "content": made[8 * (iteration - 1) + place]}]
            assert json.loads(one.attributes["gen_ai.input.messages"])[0]["role"] == "user"
            for name in (message_schemas.INPUT, message_schemas.OUTPUT):
                Draft202012Validator(message_schemas.derived(name)).validate(json.loads(one.attributes[name]))


def test_nothing_is_kept_of_a_batch_where_nobody_asked_for_content(instrumented, recorded, tmp_path):
    train("grpo", tmp_path)

    assert recorded.events("rl.trajectory.content") == []
    assert recorded.events("rl.trajectories")


def test_what_the_redaction_clears_is_not_in_the_event(instrumented, recorded, tmp_path, monkeypatch):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "EVENT_ONLY")
    monkeypatch.setattr("otel_rl.telemetry.redaction.redact", lambda: lambda text: "[cleared]")
    train("grpo", tmp_path)

    for one in recorded.events("rl.trajectory.content"):
        [said] = json.loads(one.attributes["gen_ai.output.messages"])
        assert said["parts"] == [{"type": "text", "content": "[cleared]"}]


def test_a_conversation_with_a_tool_is_kept_in_its_order(recorded, monkeypatch):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "EVENT_ONLY")
    prompt = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 2?"}]
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2}}}
    completion = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "add", "content": "3"},
        {"role": "assistant", "content": "It is 3."},
    ]
    found = sample_messages.attributes_of(prompt, completion, "stop")

    said = json.loads(found["gen_ai.input.messages"])
    assert [message["role"] for message in said] == ["system", "user", "assistant", "tool"]
    assert said[2]["parts"][-1]["arguments"] == {"a": 1, "b": 2}
    [answer] = json.loads(found["gen_ai.output.messages"])
    assert answer["parts"][0]["content"] == "It is 3."
    assert answer["finish_reason"] == "stop"


def test_a_sample_is_kept_once_with_its_first_reason():
    chosen = chosen_samples.chosen(SampleScores([0.0, None, 1.0, 0.5], [9, 3, 4, 5], {3: 1}, iteration=5))

    assert chosen == {0: "lowest_reward", 2: "highest_reward", 3: "tool_error", 1: "regular"}


def test_samples_without_any_reward_leave_the_longest_and_a_regular_one():
    assert chosen_samples.chosen(SampleScores([None, None], [3, 4], {}, None)) == {1: "longest", 0: "regular"}


def test_a_reward_that_is_no_number_is_not_the_lowest():
    assert chosen_samples.chosen(SampleScores([math.nan, 1.0, 0.0], [1, 1, 1], {}, 1)) == {
        2: "lowest_reward",
        1: "highest_reward",
        0: "longest",
    }


def test_of_no_samples_none_is_chosen():
    assert chosen_samples.chosen(SampleScores([], [], {}, 1)) == {}


@pytest.mark.parametrize("result", [([[1]], [[2]], None), ([[1]], [[2]], [[1]], [[]]), ([[1]], [[2]], "text")])
def test_a_trainer_that_returns_no_texts_has_no_content(monkeypatch, result):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "EVENT_ONLY")

    assert sample_content.of_batch(["prompt"], result, 1) is None
