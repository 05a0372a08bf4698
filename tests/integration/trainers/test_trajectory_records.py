"""The record of all samples that TRL's online trainers make: one row per sample, of what the trainer knows itself."""

from __future__ import annotations

import json
import math
import re
import statistics
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from online_trainers import online_trainer
from support.reward_readers import log_of, tables_of

from otel_rl.instrumentors.trl.samples import Samples
from otel_rl.report.subjects.trajectories import groups
from otel_rl.telemetry import deferral
from otel_rl.training import trajectories


def made_trainer(kind, directory, rewards, **arguments):
    """Two steps with two groups each."""
    settings = {"per_device_train_batch_size": 8, "reward_weights": [2.0, 1.0], "max_steps": 2, **arguments}
    return online_trainer(kind, directory, rewards, **settings)


seen: list[tuple[int, int]] = []


def by_place(completion_ids, **_):
    """Also notes what the trainer made: tokens and the last one of each sample."""
    seen.extend((len(ids), ids[-1]) for ids in completion_ids)
    return [float(number) for number in range(len(completion_ids))]


def sometimes(completions, **_):
    return [None if number % 4 == 1 else 0.5 for number in range(len(completions))]


def test_a_second_training_in_the_process_numbers_its_samples_anew(instrumented, recorded, tmp_path):
    for _ in range(2):
        made_trainer("grpo", tmp_path, [by_place, sometimes], max_steps=1).train()
    deferral.drain_all()

    firsts = [record.body["rl.rollout.id"][0] for record in recorded.events("rl.trajectories")]
    assert firsts == ["1-0", "1-0"]


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_each_step_has_one_record_with_a_row_per_sample(instrumented, recorded, tmp_path, kind):
    seen.clear()
    made_trainer(kind, tmp_path, [by_place, sometimes]).train()
    deferral.drain_all()

    records = recorded.events("rl.trajectories")
    assert [record.attributes["rl.loop.iteration"] for record in records] == [1, 2]
    roots = [span for span in recorded.spans if span.name == "rl.loop"]
    assert [record.trace_id for record in records] == [span.context.trace_id for span in roots]
    for number, record in enumerate(records, 1):
        assert record.attributes["rl.trajectories.source"] == "trainer"
        assert record.attributes["rl.trajectories.started"] == 8
        body = record.body
        assert body["rl.rollout.id"] == [f"{number}-{place}" for place in range(8)]
        assert body["rl.group.id"] == [f"{number}-0"] * 4 + [f"{number}-1"] * 4
        assert body["rl.policy.version"] == [str(number - 1)] * 8
        assert body["rl.rollout.output_tokens"] == [length for length, _ in seen[8 * number - 8 : 8 * number]]
        assert body["rl.rollout.status"] == ["finished"] * 8
        assert body["rl.rollout.trained"] == [True] * 8
        assert body["rl.reward.names"] == ["by_place", "sometimes"]
        assert body["rl.reward.scores"] == [[float(place) for place in range(8)], [0.5, None, 0.5, 0.5] * 2]
        assert body["rl.rollout.reward"] == [0.5, 2.0, 4.5, 6.5, 8.5, 10.0, 12.5, 14.5]
        assert body.keys().isdisjoint({"rl.rollout.tool_calls", "rl.rollout.seconds", "rl.rollout.discard_reason"})


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_a_prompt_has_the_same_sample_id_in_each_step_and_training(instrumented, recorded, tmp_path, kind):
    given: list[str] = []

    def of_prompt(prompts, completions, **_):
        given.extend(json.dumps(prompt) for prompt in prompts)
        return [0.5] * len(completions)

    for seed in (1, 2):
        made_trainer(kind, tmp_path, [of_prompt, by_place], max_steps=4, seed=seed).train()
    deferral.drain_all()

    ids = [value for record in recorded.events("rl.trajectories") for value in record.body["rl.sample.id"]]
    pairs = set(zip(given, ids, strict=True))
    assert len(pairs) == len({prompt for prompt, _ in pairs}) == len({value for _, value in pairs})
    assert len(pairs) < len(ids) / 4, "each prompt was sampled in more than one step"
    assert all(re.fullmatch("[0-9a-f]{12}", value) for value in ids)


def test_the_advantage_is_the_one_that_follows_from_the_recorded_rewards(instrumented, recorded, tmp_path):
    made_trainer("grpo", tmp_path, [by_place, sometimes]).train()
    deferral.drain_all()

    for record in recorded.events("rl.trajectories"):
        rewards, advantages = (record.body[f"rl.rollout.{name}"] for name in ("reward", "advantage"))
        for first in (0, 4):
            group = rewards[first : first + 4]
            mean, deviation = statistics.mean(group), statistics.stdev(group)
            expected = [(reward - mean) / (deviation + 1e-4) for reward in group]
            assert advantages[first : first + 4] == pytest.approx(expected, abs=1e-5)


def found_by_the_report(recorded):
    """What the report makes of the records."""
    tables = tables_of(*map(log_of, recorded.events("rl.trajectories")))
    return groups.of_run(SimpleNamespace(tables=tables, answers={}))


KNOWN = [
    ("grpo", {"scale_rewards": "group"}, "grpo"),
    ("grpo", {"scale_rewards": "batch"}, "grpo_batch"),
    ("grpo", {"scale_rewards": False}, "dr_grpo"),
    ("rloo", {"beta": 0.0, "normalize_advantages": False}, "rloo"),
]


@pytest.mark.parametrize(("kind", "arguments", "estimator"), KNOWN)
def test_the_report_computes_the_advantages_of_the_trainer_again(
    instrumented, recorded, tmp_path, kind, arguments, estimator
):
    made_trainer(kind, tmp_path, [by_place, sometimes], **arguments).train()
    deferral.drain_all()

    for record in recorded.events("rl.trajectories"):
        assert record.attributes["rl.advantage.estimator"] == estimator
        assert record.attributes["rl.group.size"] == 4
        assert record.body["rl.reward.weights"] == [2.0, 1.0]
    checked = found_by_the_report(recorded).checked
    assert (checked.samples, checked.differing, checked.unknown) == (16, 0, 0)


def test_a_trainer_whose_advantages_are_changed_is_found_out(instrumented, recorded, tmp_path, monkeypatch):
    trainer = made_trainer("grpo", tmp_path, [by_place, sometimes])
    # What a program does that patches the trainer before it is made.
    trainer.scale_rewards = "none"
    monkeypatch.setattr("otel_rl.instrumentors.trl.samples._ESTIMATORS", {"none": "grpo"})
    trainer.train()
    deferral.drain_all()

    first = found_by_the_report(recorded).checked.first
    assert (first.iteration, first.group, first.sample, first.fits) == (1, "1-0", "1-0", "dr_grpo")


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("rloo", {"beta": 0.0, "normalize_advantages": True}),
        ("rloo", {"beta": 0.0, "normalize_advantages": False, "reward_clip_range": (-1.0, 1.0)}),
        ("grpo", {"scale_rewards": "batch", "gradient_accumulation_steps": 2, "steps_per_generation": 1}),
    ],
)
def test_advantages_by_another_formula_are_not_judged(instrumented, recorded, tmp_path, kind, arguments):
    made_trainer(kind, tmp_path, [by_place, sometimes], **arguments).train()
    deferral.drain_all()

    checked = found_by_the_report(recorded).checked
    assert (checked.samples, checked.first) == (0, None)
    assert checked.unknown


def test_groups_whose_rewards_are_equal_leave_no_tokens_that_teach(instrumented, recorded, tmp_path):
    def equal_in_the_first_group(completions, **_):
        return [0.1 if number < 4 else float(number) for number in range(len(completions))]

    made_trainer("grpo", tmp_path, [equal_in_the_first_group], reward_weights=None).train()
    deferral.drain_all()

    records, groups = recorded.events("rl.trajectories"), found_by_the_report(recorded)
    assert (groups.compared, groups.dead) == (4, 2)
    for record, step in zip(records, groups.steps, strict=True):
        tokens = record.body["rl.rollout.output_tokens"]
        assert (step.tokens, step.effective) == (sum(tokens), sum(tokens[4:]))


def test_a_sample_that_was_cut_off_is_discarded_where_the_trainer_masks_those(instrumented, recorded, tmp_path):
    seen.clear()
    trainer = made_trainer("grpo", tmp_path, [by_place, sometimes], mask_truncated_completions=True)
    ends = {trainer.processing_class.eos_token_id, trainer.processing_class.pad_token_id}
    trainer.train()
    deferral.drain_all()

    last = [token for _, token in seen]
    for number, record in enumerate(recorded.events("rl.trajectories")):
        ended = [token in ends for token in last[8 * number : 8 * number + 8]]
        assert record.body["rl.rollout.stop_reason"] == ["stop" if one else "length" for one in ended]
        assert record.body["rl.rollout.status"] == ["finished" if one else "discarded" for one in ended]
        assert record.body["rl.rollout.trained"] == ended


def test_several_batches_of_one_step_are_one_record(instrumented, recorded, tmp_path):
    trainer = made_trainer(
        "grpo", tmp_path, [by_place, sometimes], gradient_accumulation_steps=2, steps_per_generation=1
    )
    trainer.train()
    deferral.drain_all()

    records = recorded.events("rl.trajectories")
    assert [record.attributes["rl.loop.iteration"] for record in records] == [1, 2]
    for number, record in enumerate(records, 1):
        assert record.body["rl.rollout.id"] == [f"{number}-{place}" for place in range(16)]
        assert record.body["rl.group.id"] == [f"{number}-{place // 4}" for place in range(16)]


def test_an_evaluation_makes_no_rows(instrumented, recorded, tmp_path):
    trainer = made_trainer("grpo", tmp_path, [by_place, sometimes])
    trainer.predict(trainer.train_dataset)
    deferral.drain_all()

    assert recorded.events("rl.trajectories") == []


class Accelerator:
    process_index = 1
    num_processes = 2


class Arguments:
    reward_weights = None


class State:
    global_step = 4


class Trainer:
    """What is read of a trainer, of rank 1 of 2."""

    accelerator, args, state = Accelerator(), Arguments(), State()
    reward_func_names = ("first",)
    num_generations, eos_token_id, pad_token_id = 2, 1, 0


class OnDevice(torch.Tensor):
    """Says when it is read."""

    reads: ClassVar[list[bool]] = []
    device = torch.device("meta")

    def tolist(self):
        self.reads.append(True)
        return super().tolist()


def test_advantages_on_a_device_are_read_only_after_the_trainer_has(recorded):
    samples, trainer = Samples(), Trainer()
    advantages = torch.tensor([0.5, -0.5]).as_subclass(OnDevice)
    samples.sampled(trainer, ([[5, 6], [5]], [[7, 1], [7, 7, 7]], ["a", "b"]))
    assert not OnDevice.reads
    samples.scored(trainer, {"advantages": advantages}, {"first": [1.0, math.nan]})
    trajectories.record()

    [record] = recorded.events("rl.trajectories")
    assert record.body["rl.rollout.advantage"] == [0.5, -0.5]
    assert record.body["rl.rollout.id"] == ["2", "3"]
    assert record.body["rl.group.id"] == ["1", "1"]
    assert record.body["rl.rollout.input_tokens"] == [2, 1]
    assert record.body["rl.rollout.stop_reason"] == ["stop", "length"]
    assert record.body["rl.reward.scores"] == [[1.0, None]]
    assert record.body["rl.rollout.reward"] == [1.0, None]


@pytest.mark.parametrize("result", [None, (), ([], [], []), ("prompt", "text", None), ([[1]], [[1], [2]], None)])
def test_a_trainer_that_returns_something_else_has_no_rows(recorded, result):
    samples, trainer = Samples(), Trainer()
    samples.sampled(trainer, result)
    samples.scored(trainer, {"advantages": None}, {"first": [1.0]})
    trajectories.record()

    assert recorded.events("rl.trajectories") == []


def test_turns_and_tool_errors_are_counted_by_sample(recorded):
    samples, trainer = Samples(), Trainer()
    answered = [{"role": "assistant"}, {"role": "tool"}, {"role": "assistant"}]
    made = ([[5], [5]], [[7] * 6, [7, 1]], [[1, 1, 0, 0, 1, 1], [1, 1]], [answered, answered[:1]])
    samples.tool_errors = {0: 1}
    samples.sampled(trainer, made)
    samples.scored(trainer, {}, {"first": [0.0, 0.0]})
    trajectories.record()

    [record] = recorded.events("rl.trajectories")
    assert record.body["rl.rollout.turns"] == [2, 1]
    assert record.body["rl.rollout.output_tokens"] == [4, 2]
    assert record.body["rl.rollout.tool_calls"] == [1, 0]
    assert record.body["rl.rollout.tool_errors"] == [1, 0]
    assert record.body["rl.rollout.suspect"] == [True, None]
    assert "rl.rollout.advantage" not in record.body
