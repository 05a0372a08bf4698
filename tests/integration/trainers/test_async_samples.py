"""Rows of the samples that ``AsyncGRPOTrainer`` takes from its workers; the worker is a stand-in."""

from __future__ import annotations

import every_trainer
import numpy as np
import pytest

from otel_rl.instrumentors.trl import async_samples
from otel_rl.telemetry import deferral
from otel_rl.training import trajectories

trainers = pytest.importorskip("trl.experimental.async_grpo.async_grpo_trainer")
if not hasattr(trainers.DataCollatorForRollout, "_log_metrics"):
    pytest.skip("this version of TRL sums up its samples elsewhere", allow_module_level=True)


def example(**values):
    given = {
        "input_ids": np.arange(6),
        "completion_mask": np.array([0, 0, 0, 1, 1, 1]),
        "advantage": -0.5,
        "group_id": 3,
        "metrics": {"reward": 0.25, "reward_std": 0.5, "rewards/exact": 0.0, "rewards/format": float("nan")},
    }
    return {**given, **values}


def test_every_sample_that_is_trained_on_has_a_row(instrumented, recorded, tmp_path):
    kind = trainers.AsyncGRPOTrainer
    trainer = every_trainer.make(kind, tmp_path, steps=2)
    examples = []
    collator = trainers.DataCollatorForRollout
    summed = collator._log_metrics

    def watched(self, rows, all_examples, padded):
        examples.extend(all_examples)
        return summed(self, rows, all_examples, padded)

    # Above ours, so that both see the same.
    collator._log_metrics = watched
    try:
        trainer.train()
    finally:
        collator._log_metrics = summed
    trajectories.record()
    deferral.drain_all()

    records = recorded.events("rl.trajectories")
    assert {record.attributes["rl.trajectories.source"] for record in records} == {"trainer"}
    rows = {
        name: [value for record in records for value in record.body[name]]
        for name in ("rl.group.id", "rl.rollout.advantage", "rl.rollout.reward", "rl.rollout.output_tokens")
    }
    assert examples
    assert rows["rl.group.id"] == [str(one["group_id"]) for one in examples]
    assert rows["rl.rollout.advantage"] == [one["advantage"] for one in examples]
    assert rows["rl.rollout.reward"] == [one["metrics"]["reward"] for one in examples]
    assert rows["rl.rollout.output_tokens"] == [3] * len(examples)


def test_scores_are_by_function_and_one_that_does_not_apply_is_empty(recorded):
    other = example(group_id=4, metrics={"reward": 1.0, "rewards/format": 1.0})
    async_samples.taken(None, None, rows=[], all_examples=[example(), other], padded=None)
    trajectories.record()
    deferral.drain_all()

    [record] = recorded.events("rl.trajectories")
    assert record.body["rl.reward.names"] == ["exact", "format"]
    assert record.body["rl.reward.scores"] == [[0.0, None], [None, 1.0]]
    assert record.body["rl.rollout.input_tokens"] == [3, 3]
    assert record.body["rl.rollout.trained"] == [True, True]
    assert record.body["rl.group.id"] == ["3", "4"]


@pytest.mark.parametrize("given", [(), ([],), ([], []), ([], "text"), ([], None)])
def test_a_collator_that_is_called_otherwise_has_no_rows(recorded, given):
    async_samples.taken(None, None, *given)
    trajectories.record()

    assert recorded.events("rl.trajectories") == []
