"""SkyRL's trainers and generators: steps and phases by its timer, values, rollouts, versions of the weights.

With stand-ins of the classes that SkyRL 0.4.0 has, which needs Python 3.12 and packages of its own: `tests/systems`
compares a real run with SkyRL's own log.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter

import pytest
import skyrl_stand_in as skyrl
from support.engine_server import EngineServer

from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.instrumentors.aiohttp import AiohttpInstrumentor
from otel_rl.instrumentors.skyrl import SkyrlInstrumentor
from otel_rl.telemetry import deferral
from otel_rl.training import engine_versions, trajectories, trajectory_shares

ANSWER = {"request_id": "r", "choices": [{"index": 0, "token_ids": [7, 8], "finish_reason": "stop"}]}
ANSWER["usage"] = {"prompt_tokens": 3, "completion_tokens": 2}


@pytest.fixture(autouse=True)
def instrumented(recorded, monkeypatch):
    for name, module in skyrl.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    trajectory_shares.forget()
    engine_versions.forget()
    instrumentor, clients = SkyrlInstrumentor(), AiohttpInstrumentor()
    for one in (clients, instrumentor):
        one.instrument(skip_dep_check=True)
    assert not instrumentor.missing
    yield instrumentor
    for one in (instrumentor, clients):
        one.uninstrument()
    trajectory_shares.forget()
    engine_versions.forget()


def _train(trainer):
    result = trainer.train()
    if result is not None:
        asyncio.run(result)
    deferral.drain_all()
    return trainer


def _rollout(result=None, trajectory_id=None, kind=skyrl.SkyRLGymGenerator):
    generator = kind(skyrl.RemoteInferenceClient(), result)
    output = asyncio.run(generator.agent_loop([], "gsm8k", {}, 8, 8, trajectory_id=trajectory_id))
    deferral.drain_all()
    return output


def _steps(recorded):
    return [span.attributes["rl.loop.iteration"] for span in recorded.spans if span.name == "rl.loop"]


def _phases(recorded):
    return [span.attributes["rl.phase"] for span in recorded.spans if "rl.phase" in span.attributes]


def test_the_steps_have_the_numbers_of_the_trainer(recorded):
    _train(skyrl.RayPPOTrainer(rounds=(1, 1, 1)))
    assert _steps(recorded) == [1, 2, 3]
    root = next(span for span in recorded.spans if span.name == "rl.loop")
    assert root.attributes["rl.loop.source"] == "known"
    assert root.attributes["rl.model.name"] == "Qwen3-0.6B"


def test_the_parts_that_the_timer_names_are_phases(recorded):
    _train(skyrl.RayPPOTrainer(rounds=(1,)))
    assert _phases(recorded) == ["sample", "log_probs", "train", "sync", "evaluate"]


def test_the_timer_logs_the_program_as_its_caller(recorded):
    skyrl.CALLERS.clear()
    _train(skyrl.SFTTrainer(steps_=1))
    assert set(skyrl.CALLERS) == {"train", "train 0"}
    assert recorded.span("rl.loop")


def test_a_phase_ends_where_the_timer_keeps_its_time_after_it_has_logged_it(recorded, monkeypatch):
    class SlowLog(list):
        def append(self, caller):
            super().append(caller)
            if caller == "train 0":
                time.sleep(0.02)

    monkeypatch.setattr(skyrl, "CALLERS", SlowLog())
    kept = _train(skyrl.RayPPOTrainer(rounds=(1,))).all_timings
    for phase, timer in (("log_probs", "fwd_logprobs_values_reward"), ("sync", "sync_weights")):
        span = next(span for span in recorded.spans if span.attributes.get("rl.phase") == phase)
        assert (span.end_time - span.start_time) / 1e9 == pytest.approx(kept[timer], abs=0.005)


def test_the_timer_has_the_attributes_that_it_has_without_us(recorded):
    timer = skyrl.Timer("generate", {})
    with pytest.raises(AttributeError, match="'Timer' object has no attribute 'start_time'"):
        _ = timer.start_time
    with timer:
        assert vars(timer).keys() == {"message", "update_dict", "start_time"}


def test_the_timer_is_as_it_was_when_nobody_follows_it_any_more(instrumented):
    assert "start_time" in vars(skyrl.Timer)
    instrumented.uninstrument()
    assert "start_time" not in vars(skyrl.Timer)
    instrumented.instrument(skip_dep_check=True)
    assert "start_time" in vars(skyrl.Timer)


def test_a_timer_that_keeps_its_start_elsewhere_is_reported_as_missing(instrumented, monkeypatch):
    class Timer:
        def __enter__(self):
            self.began = 0.0

        def __exit__(self, *_):
            self.began = None

    instrumented.uninstrument()
    monkeypatch.setattr(sys.modules["skyrl.train.utils.utils"], "Timer", Timer)
    instrumented.instrument(skip_dep_check=True)
    assert instrumented.missing == ("skyrl.train.utils.utils.Timer.start_time",)


def test_a_step_that_samples_again_is_one_step(recorded):
    _train(skyrl.RayPPOTrainer(rounds=(3, 1)))
    assert _steps(recorded) == [1, 2]
    assert _phases(recorded).count("sample") == 4


def test_what_has_sampled_in_vain_at_the_end_is_no_step(recorded):
    _train(skyrl.RayPPOTrainer(rounds=(1, 0)))
    assert _steps(recorded) == [1]


def test_the_asynchronous_trainer_has_the_same_steps_and_its_own_phases(recorded):
    _train(skyrl.FullyAsyncRayPPOTrainer())
    assert _steps(recorded) == [1, 2]
    assert Counter(_phases(recorded)) == {"sample": 2, "train": 2, "sync": 2}


def test_a_rollout_beside_the_steps_belongs_to_the_one_that_is_worked_on_when_it_begins(recorded):
    _train(skyrl.FullyAsyncRayPPOTrainer())
    rollouts = [span for span in recorded.spans if span.name == "rl.rollout"]
    begun = {span.attributes["rl.rollout.id"]: span.attributes["rl.loop.iteration"] for span in rollouts}
    # The second group begins between the steps.
    assert begun == {"0_0": 1, "0_1": 1, "1_0": 2, "1_1": 2}
    steps = {span.context.trace_id for span in recorded.spans if span.name == "rl.loop"}
    assert not steps & {span.context.trace_id for span in rollouts}


def test_what_the_trainer_logs_is_recorded_with_its_step_and_reaches_the_tracker(recorded):
    trainer = _train(skyrl.FullyAsyncRayPPOTrainer())
    logged = [(event.attributes["rl.loop.iteration"], dict(event.body)) for event in recorded.events("rl.step")]
    assert logged == trainer.tracker.logged
    assert len(logged) == 4


def test_supervised_fine_tuning_has_steps_and_phases(recorded):
    _train(skyrl.SFTTrainer())
    assert _steps(recorded) == [1, 2]
    assert {"data_wait", "train", "optimizer"} <= set(_phases(recorded))


def test_a_training_on_made_up_data_counts_as_it_logs(recorded):
    trainer = _train(skyrl.SFTTrainer(steps_=3, is_dummy=True))
    assert _steps(recorded) == [0, 1, 2] == [step for step, _ in trainer.tracker.logged]


def test_a_step_that_fails_is_recorded_as_failed_and_the_error_is_the_programs(recorded):
    def fail():
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        _train(skyrl.RayPPOTrainer(update=fail))
    deferral.drain_all()
    failed = {span.name for span in recorded.spans if span.attributes.get("error.type") == "ValueError"}
    assert failed == {"rl.train", "rl.rank.step", "rl.loop"}


def test_the_timer_outside_of_a_training_is_nobodys_phase(recorded):
    with skyrl.Timer("generate"):
        pass
    asyncio.run(_aenter())
    assert recorded.spans == []


async def _aenter():
    async with skyrl.Timer("eval"):
        pass


def test_an_agent_loop_is_a_rollout_with_its_reward_and_ids(recorded):
    output = _rollout(trajectory_id=skyrl.TrajectoryID("12", 1))
    assert output.reward == [0.0, 0.5]
    span = recorded.span("rl.rollout")
    assert span.attributes["rl.rollout.id"] == "12_1"
    assert span.attributes["rl.group.id"] == "12"
    assert span.attributes["rl.rollout.reward"] == 0.5
    score = recorded.events("gen_ai.evaluation.result")[0]
    assert score.attributes["gen_ai.evaluation.name"] == "gsm8k"


def test_the_row_of_a_rollout_has_its_stop_reason_and_the_values_of_its_environment(recorded):
    _rollout(lambda: skyrl.TrajectoryOutput([5], 1.0, "length", {"correct": 1, "note": "text"}, {"env": 0.25}))
    trajectories.record()
    body = recorded.events("rl.trajectories")[0].body
    assert body["rl.rollout.stop_reason"] == ["length"]
    metrics = dict(zip(body["rl.rollout.metric.names"], body["rl.rollout.metric.values"], strict=True))
    assert metrics == {"correct": [1.0], "seconds/env": [0.25]}


def test_a_rollout_that_is_trained_turn_by_turn_has_the_rewards_of_its_turns(recorded):
    turns = [skyrl.TrajectoryOutput([5, 6], [0.0, reward], "stop", {}) for reward in (0.25, 1.0)]
    _rollout(lambda: skyrl.StepWiseOutput(turns))
    trajectories.record()
    body = recorded.events("rl.trajectories")[0].body
    assert body["rl.rollout.reward"] == [1.25]
    assert [list(rewards) for rewards in body["rl.rollout.turn_rewards"]] == [[0.25, 1.0]]


def test_a_rollout_with_images_is_one_too(recorded):
    _rollout(kind=skyrl.SkyRLVLMGymGenerator, trajectory_id=skyrl.TrajectoryID("3", 0))
    assert recorded.span("rl.rollout").attributes["rl.rollout.id"] == "3_0"


def test_a_rollout_that_fails_is_recorded_as_failed(recorded):
    def fail():
        raise RuntimeError("of the engine")

    with pytest.raises(RuntimeError, match="of the engine"):
        _rollout(fail)
    deferral.drain_all()
    assert recorded.span("rl.rollout").attributes["error.type"] == "RuntimeError"


def test_rollouts_of_an_evaluation_are_marked(recorded):
    _train(skyrl.RayPPOTrainer(rounds=(1,)))
    trajectories.record()
    found = {}
    for event in recorded.events("rl.trajectories"):
        evaluated = event.body.get("rl.rollout.evaluation") or [None] * 9
        found |= dict(zip(event.body["rl.rollout.id"], evaluated, strict=False))
    assert found == {"1_0": None, "1_1": None, "e_0": True}


def test_a_call_of_an_engine_is_one_call_of_the_rollout_with_the_version_its_client_counts(recorded):
    with EngineServer() as server:
        server.answers["/inference/v1/generate"] = lambda _: ANSWER
        client = skyrl.RemoteInferenceClient(server.url)
        _train(skyrl.RayPPOTrainer(rounds=(1, 1), generator=skyrl.SkyRLGymGenerator(client, asks=True)))
        record_abandoned()
    deferral.drain_all()
    rollouts = {span.context.trace_id: span for span in recorded.spans if span.name == "rl.rollout"}
    calls = [span for span in recorded.spans if span.name.startswith("text_completion")]
    assert len(calls) == len(rollouts) == 6
    for call in calls:
        rollout = rollouts[call.context.trace_id]
        assert call.attributes["gen_ai.usage.output_tokens"] == 2
        assert call.attributes["gen_ai.response.finish_reasons"] == ("stop",)
        version = rollout.attributes["rl.policy.version"]
        assert call.attributes["rl.inference.weight_version"] == str(version)
        assert rollout.attributes["rl.rollout.model_calls"] == 1
    assert {str(one.attributes["rl.policy.version"]) for one in rollouts.values()} == {"1", "2", "3"}
