"""What TRL's online trainers do beyond sampling with a synchronous reward: asynchronous rewards, RLOO, weight sync."""

from __future__ import annotations

import asyncio
import math
import pickle
from collections import Counter

import pytest
import torch
from online_trainers import online_trainer
from trl.extras.profiling import ProfilingContext

from otel_rl.instrumentors.trl.profiling import scope
from otel_rl.instrumentors.trl.rewards import RewardScores
from otel_rl.semconv import spans
from otel_rl.telemetry import drops
from otel_rl.training import steps
from otel_rl.training.trainer_loop import TrainerLoop


async def patient_reward(completions, **_):
    await asyncio.sleep(0.01)
    return [1.0] * len(completions)


async def selective_reward(completions, **_):
    return [None, math.inf, *[0.5] * (len(completions) - 2)]


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_sampling_and_rewards_of_each_online_trainer_are_phases(instrumented, recorded, tmp_path, kind):
    online_trainer(kind, tmp_path, [patient_reward]).train()

    found = Counter(span.name for span in recorded.spans)
    for name in ("rl.sample", "rl.generate", "rl.train", "rl.forward", "rl.backward", "rl.optimizer"):
        assert found[name] >= 1, name
    assert found["rl.sample"] == 1
    assert recorded.metrics()["rl.sample.samples"][0].value == 4


def test_predicting_is_evaluation_and_not_training(instrumented, recorded, tmp_path):
    trainer = online_trainer("grpo", tmp_path, [patient_reward])
    trainer.predict(trainer.train_dataset)

    assert Counter(span.name for span in recorded.spans) == {"rl.evaluate": 1}
    assert not recorded.metrics().keys() & {"rl.reward.score", "rl.sample.samples"}


def test_asynchronous_reward_functions_are_children_of_the_reward_phase(instrumented, recorded, tmp_path):
    drops.reset()
    online_trainer("grpo", tmp_path, [patient_reward, selective_reward]).train()

    rewards = [span for span in recorded.spans if span.name == "rl.reward"]
    [phase] = [span for span in rewards if "rl.reward.name" not in span.attributes]
    named = {span.attributes["rl.reward.name"]: span for span in rewards if span is not phase}
    assert named.keys() == {"patient_reward", "selective_reward"}
    for span in named.values():
        assert span.parent.span_id == phase.context.span_id
    assert named["patient_reward"].end_time - named["patient_reward"].start_time >= 10e6
    points = {point.attributes["rl.reward.name"]: point for point in recorded.metrics()["rl.reward.score"]}
    assert (points["patient_reward"].count, points["patient_reward"].sum) == (4, 4.0)
    assert (points["selective_reward"].count, points["selective_reward"].sum) == (2, 1.0)
    assert drops.snapshot()["metrics", "non_finite"] >= 1


def test_a_failing_reward_function_marks_its_span_and_raises_as_before(instrumented, recorded, tmp_path):
    error = LookupError("no such answer")

    def failing_reward(completions, **_):
        raise error

    with pytest.raises(LookupError) as caught:
        online_trainer("grpo", tmp_path, [failing_reward]).train()

    assert caught.value is error
    failed = [span for span in recorded.spans if span.attributes.get("error.type") == "LookupError"]
    assert Counter(span.name for span in failed) == {"rl.loop": 1, "rl.rank.step": 1, "rl.reward": 2}


def test_weights_travel_inside_the_sync_phase(instrumented, recorded):
    engines = pytest.importorskip("trl.generation.vllm_generation")
    engine = object.__new__(engines.VLLMGeneration)
    loop = TrainerLoop().enter()
    loop.begin_step(1, scope)
    with (
        pytest.raises(AttributeError, match="VLLMGeneration"),
        ProfilingContext("GRPOTrainer.sync_weights", report_to=[]),
    ):
        engine.sync_weights()
    loop.leave()

    outer, inner = recorded.span("rl.sync"), recorded.span("rl.weight_sync")
    assert inner.parent.span_id == outer.context.span_id
    assert inner.attributes["error.type"] == outer.attributes["error.type"] == "AttributeError"


def test_sampling_again_within_a_step_is_not_training(instrumented, recorded):
    loop = TrainerLoop()
    loop.begin_step(1, scope)
    with loop.phase(spans.RL_FORWARD, scope):
        pass
    with loop.phase(spans.RL_SAMPLE, scope):
        pass
    with loop.phase(spans.RL_FORWARD, scope):
        pass
    loop.finish_step()

    first, second = sorted(
        (span for span in recorded.spans if span.name == "rl.train"), key=lambda span: span.start_time
    )
    sampling = recorded.span("rl.sample")
    assert first.end_time <= sampling.start_time <= sampling.end_time <= second.start_time


def test_a_phase_outside_of_any_step_is_not_recorded(instrumented, recorded):
    steps.finish()
    with ProfilingContext("GRPOTrainer.compute_loss", report_to=[]):
        pass

    assert recorded.spans == []


def test_a_reward_function_that_an_evaluation_has_called_first_has_its_span_in_training(instrumented, recorded):
    loop = TrainerLoop().enter()
    loop.begin_step(1, scope)
    for phase in (spans.RL_EVALUATE, spans.RL_REWARD):
        with loop.phase(phase, scope), ProfilingContext("GRPOTrainer.score_of_this_test", report_to=[]):
            pass
    loop.leave()

    named = [span.attributes["rl.reward.name"] for span in recorded.spans if "rl.reward.name" in span.attributes]
    assert named == ["score_of_this_test"]


class OwnContext(ProfilingContext):
    """A program's own."""


@pytest.mark.parametrize("kind", [ProfilingContext, OwnContext])
def test_profiling_contexts_stay_what_they_are(instrumented, recorded, kind):
    loop = TrainerLoop().enter()
    loop.begin_step(1, scope)
    context = kind("GRPOTrainer.compute_loss", report_to=[])
    before = vars(context).keys()
    with context as entered:
        assert entered is context
        assert type(context) is kind
    assert type(pickle.loads(pickle.dumps(context))) is kind  # noqa: S301 - our own
    assert vars(context).keys() == before
    loop.leave()

    assert recorded.span("rl.forward")


def test_a_reward_function_that_the_program_has_tried_before_the_training_has_its_span(instrumented, recorded):
    steps.finish()
    loop = TrainerLoop()
    with ProfilingContext("GRPOTrainer.tried_before", report_to=[]):
        pass
    loop.enter()
    loop.begin_step(1, scope)
    with ProfilingContext("GRPOTrainer.tried_before", report_to=[]):
        pass
    with loop.phase(spans.RL_REWARD, scope), ProfilingContext("GRPOTrainer.tried_before", report_to=[]):
        pass
    loop.leave()

    named = [span.attributes["rl.reward.name"] for span in recorded.spans if "rl.reward.name" in span.attributes]
    assert named == ["tried_before"]


class Accelerator:
    process_index = 1
    num_processes = 2


class Trainer:
    accelerator = Accelerator()
    reward_func_names = ("first",)


def test_scores_on_a_device_are_read_only_after_the_trainer_has(recorded):
    read = []

    class OnDevice(torch.Tensor):
        device = torch.device("meta")

        def tolist(self):
            read.append(True)
            return super().tolist()

    scores = RewardScores()
    scores.calculated(Trainer(), torch.tensor([[1.0], [2.0], [3.0], [4.0]]).as_subclass(OnDevice))
    assert not read
    scores.scored()

    [point] = [p for p in recorded.metrics()["rl.reward.score"] if p.attributes["rl.reward.name"] == "first"]
    assert (point.count, point.sum) == (2, 7.0)
    assert scope.enabled
