"""verl's trainer and agent loops: steps and phases by its timer, values, rollouts, calls, scores and advantages.

With stand-ins of the classes that verl 0.9.1 has; `make test-systems` compares a real run with verl's own log.
"""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import verl_stand_in as verl

from otel_rl.instrumentors.verl import VerlInstrumentor
from otel_rl.telemetry import deferral
from otel_rl.training import logged_steps, steps, trajectory_changes, trajectory_shares


@pytest.fixture(autouse=True)
def instrumented(recorded, monkeypatch):
    for name, module in verl.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    trajectory_shares.forget()
    instrumentor = VerlInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    assert not instrumentor.missing
    yield
    instrumentor.uninstrument()
    trajectory_shares.forget()


def _train(steps=2, **given):
    trainer = verl.PPOTrainer(steps, **given)
    trainer.fit(None)
    deferral.drain_all()
    return trainer


def _rollout(session=0, validate=False, agent="single_turn_agent", tokens=2):
    worker = verl.AgentLoopWorker(verl.LLMServerClient(tokens))
    trajectory = {"step": 5, "sample_index": 12, "rollout_n": session, "validate": validate}
    sample = {"uid": "u1", "session_id": session, "data_source": "gsm8k"}
    return asyncio.run(worker._run_agent_loop({"temperature": 1.0}, trajectory, agent_name=agent, **sample))


def test_the_steps_have_the_numbers_of_the_trainer(recorded):
    _train(steps=3)
    roots = [span for span in recorded.spans if span.name == "rl.loop"]
    assert [span.attributes["rl.loop.iteration"] for span in roots] == [1, 2, 3]
    assert {span.attributes["rl.loop.source"] for span in roots} == {"known"}
    assert {span.attributes["rl.model.name"] for span in roots} == {"Qwen2.5-0.5B"}


def test_the_parts_that_the_timer_names_are_phases(recorded):
    _train(steps=1)
    phases = [span.attributes["rl.phase"] for span in recorded.spans if "rl.phase" in span.attributes]
    assert phases == ["sample", "log_probs", "log_probs", "train", "sync"]


def test_what_the_trainer_logs_is_recorded_with_its_step_and_reaches_the_tracker(recorded):
    trainer = _train(steps=2)
    logged = [(event.attributes["rl.loop.iteration"], dict(event.body)) for event in recorded.events("rl.step")]
    assert logged == trainer.logger.logged


def test_a_trainer_with_a_fit_of_its_own_has_the_steps_and_phases_that_it_logs(recorded, monkeypatch):
    # Of the tests before.
    monkeypatch.setattr(steps, "_last_iteration", None)
    logged_steps._forget()
    # As ``SeparateRayPPOTrainer``; the keys are those of a step of verl 0.9.1, with what its agent loops add.
    tracking = verl.Tracking("p", "e")
    for step in (1, 2):
        slowest = {"timing_s/agent_loop/slowest/generate_sequences": 58.0}
        parts = {"gen": 60.0, "old_log_prob": 8.0, "ref": 8.0, "update_actor": 18.0, "update_weights": 3.0}
        timings = {**slowest, **{f"timing_s/{name}": seconds for name, seconds in parts.items()}}
        timings |= {"timing_s/step": 100.0, "timing_s/testing": 60.0}
        tracking.log(data={"training/reward": 0.5, **timings}, step=step)
    logged_steps._end()
    deferral.drain_all()
    roots = [span for span in recorded.spans if span.name == "rl.loop"]
    assert [span.attributes["rl.loop.iteration"] for span in roots] == [1, 2]
    assert {span.attributes["rl.loop.source"] for span in roots} == {"logged"}
    phases = [
        (span.attributes["rl.phase"], (span.end_time - span.start_time) / 1e9)
        for span in recorded.spans
        if "rl.phase" in span.attributes and span.attributes["rl.loop.iteration"] == 1
    ]
    assert phases == [("sample", 60), ("log_probs", 8), ("log_probs", 8), ("train", 18), ("sync", 3)]


def test_a_step_that_fails_is_recorded_as_failed_and_the_error_is_the_programs(recorded):
    def fail():
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        _train(update=fail)
    deferral.drain_all()
    failed = {span.name for span in recorded.spans if span.attributes.get("error.type") == "ValueError"}
    assert failed == {"rl.train", "rl.rank.step", "rl.loop"}


def test_the_timer_of_another_process_is_nobodys_phase(recorded):
    with verl.marked_timer("gen", {}):
        pass
    assert recorded.spans == []


def test_an_agent_loop_is_a_rollout_with_its_score_and_ids(recorded):
    result = _rollout(session=0)
    assert result.reward_score == 1.0
    span = recorded.span("rl.rollout")
    assert span.attributes["rl.rollout.id"] == "u1_0"
    assert span.attributes["rl.group.id"] == "u1"
    assert span.attributes["rl.loop.iteration"] == 5
    scores = {event.attributes["gen_ai.evaluation.name"] for event in recorded.events("gen_ai.evaluation.result")}
    assert scores == {"gsm8k", "gsm8k/acc"}
    assert span.attributes["rl.rollout.reward"] == 1.0
    assert span.attributes["rl.rollout.success"] is True


def test_a_call_of_the_policy_has_its_tokens_and_the_version_of_the_weights(recorded):
    _rollout(tokens=2)
    call = next(span for span in recorded.spans if span.name.startswith("text_completion"))
    assert call.parent.span_id == recorded.span("rl.rollout").context.span_id
    assert call.attributes["gen_ai.usage.input_tokens"] == 3
    assert call.attributes["gen_ai.usage.output_tokens"] == 2
    assert call.attributes["rl.inference.weight_version"] == "3"
    assert call.attributes["gen_ai.response.finish_reasons"] == ("stop",)


def test_an_answer_of_all_tokens_that_a_response_may_have_was_cut_off(recorded):
    _rollout(tokens=4)
    call = next(span for span in recorded.spans if span.name.startswith("text_completion"))
    assert call.attributes["gen_ai.response.finish_reasons"] == ("length",)


def test_a_tool_of_an_agent_loop_is_a_tool_call_of_the_rollout(recorded):
    _rollout(agent="tool_agent")
    tool = recorded.span("execute_tool search")
    assert tool.parent.span_id == recorded.span("rl.rollout").context.span_id


def test_the_row_has_the_age_of_the_sample_when_the_trainer_took_it(recorded, monkeypatch):
    now = 100.0
    monkeypatch.setattr("otel_rl.instrumentors.verl.queue.time", SimpleNamespace(monotonic=lambda: now))
    verl.PPOTrainer(1)._submit_batch_to_rollout({"uid": ["u1", "u2"]})
    now = 107.5
    verl.ReplayBuffer()._materialize_batch("train", ["u1"], {})
    now = 200.0
    utils = sys.modules["verl.trainer.ppo.v1.utils"]
    utils.compute_advantage_for_multi_trajectories(
        SimpleNamespace(batch=None), batch_keys=["u1_0_0", "u1_1_0"], adv_estimator="grpo"
    )
    deferral.drain_all()
    trajectory_changes.record()
    (body,) = [event.body for event in recorded.events("rl.trajectories.changes")]
    assert body["rl.rollout.age"] == [7.5, 7.5]


def test_what_stays_in_the_queue_is_measured_by_state(recorded):
    assert verl.ReplayBuffer()._materialize_batch("train", ["u1"], {}) == ["u1"]
    deferral.drain_all()
    points = recorded.metrics()["rl.sample.queue.size"]
    sizes = {point.attributes["rl.sample.state"]: point.value for point in points}
    assert sizes == {"pending": 1, "running": 2, "finished": 1, "failed": 0}


def test_the_trainer_adds_the_advantage_to_the_row_of_the_rollout(recorded):
    data = SimpleNamespace(batch=None)
    utils = sys.modules["verl.trainer.ppo.v1.utils"]
    utils.compute_advantage_for_multi_trajectories(data, batch_keys=["u1_0_0", "u1_1_0"], adv_estimator="grpo")
    deferral.drain_all()
    trajectory_changes.record()
    changes = [event.body for event in recorded.events("rl.trajectories.changes")]
    found = {
        name: advantage
        for body in changes
        for name, advantage in zip(body["rl.rollout.id"], body["rl.rollout.advantage"], strict=True)
    }
    assert found == {"u1_0": 0.5, "u1_1": -0.5}
