"""Steps and phases of a program of which only the log calls are known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from opentelemetry import baggage
from opentelemetry.context import attach, detach

from otel_rl.process import process_identity
from otel_rl.semconv.attributes import RlLoopSourceValues
from otel_rl.telemetry import Scope
from otel_rl.training import logged_steps, steps
from otel_rl.training.scalars import Source, sink
from otel_rl.training.trackers import Tracker

SECOND = 1_000_000_000
scope = Scope("test")


@pytest.fixture(autouse=True)
def _following(recorded, monkeypatch):
    # Of the tests before.
    monkeypatch.setattr(steps, "_last_iteration", None)
    logged_steps._forget()
    logged_steps.follow()
    yield
    logged_steps._forget()
    sink.listeners.remove(logged_steps._logged)


def _log(step, second, **values):
    sink.log(scope, Source.WANDB, step, values, timestamp=second * SECOND)


def _spans(recorded, name):
    return [span for span in recorded.spans if span.name == name]


def _number(span):
    return span.attributes["rl.loop.iteration"]


def _seconds(span):
    return (span.end_time - span.start_time) / SECOND


def test_a_step_lasts_from_the_log_call_before_to_its_own(recorded):
    for step, second in ((1, 100), (2, 110), (3, 125)):
        _log(step, second, reward=1.0)
    logged_steps._end()
    found = _spans(recorded, "rl.loop")
    assert [(_number(span), _seconds(span)) for span in found] == [(2, 10), (3, 15)]
    assert {span.attributes["rl.loop.source"] for span in found} == {RlLoopSourceValues.LOGGED}


def test_a_logged_length_of_the_step_says_when_it_began(recorded):
    _log(1, 100, **{"timing_s/step": 4.0})
    logged_steps._end()
    (step,) = _spans(recorded, "rl.loop")
    assert (step.start_time, step.end_time) == (96 * SECOND, 100 * SECOND)


@pytest.mark.parametrize(
    ("key", "phase"),
    [
        ("timing_s/gen", "sample"),
        ("timing/train/generation", "sample"),
        ("perf/rollout_time", "sample"),
        ("timing/make_experience", "log_probs"),
        ("timing_s/old_log_prob", "log_probs"),
        ("timeperf/recompute_logp", "log_probs"),
        ("time/reward", "reward"),
        ("time/step_generate", "sample"),
        ("time/step_model_update", "sync"),
        ("time/get_batch_cost_train", "data_wait"),
        ("timing/train/policy_and_reference_logprobs", "log_probs"),
        ("time/forward_backward", "train"),
        ("time/wait_for_policy", "data_wait"),
        ("perf/actor_train_time", "train"),
        ("timing_s/update_actor", "train"),
        ("perf/update_weights_time", "sync"),
        ("train/timing/broadcast", "sync"),
        ("perf/train_wait_time", "data_wait"),
        ("timing_s/save_checkpoint", "checkpoint"),
        ("timing_s/testing", "evaluate"),
    ],
)
def test_logged_times_are_phases_of_the_step(recorded, key, phase):
    _log(1, 100, **{"timing_s/step": 4.0, key: 1.5})
    logged_steps._end()
    (rank_step,) = _spans(recorded, "rl.rank.step")
    (found,) = [span for span in recorded.spans if "rl.phase" in span.attributes]
    assert (found.attributes["rl.phase"], _seconds(found)) == (phase, 1.5)
    assert found.attributes["rl.loop.source"] == RlLoopSourceValues.LOGGED
    assert found.parent.span_id == rank_step.context.span_id


def test_several_log_calls_at_one_step_are_one_step(recorded):
    _log(1, 100, **{"timing_s/step": 4.0})
    _log(2, 110, reward=0.5)
    _log(2, 111, **{"timing_s/gen": 3.0})
    _log(3, 120, reward=0.6)
    logged_steps._end()
    assert [_number(span) for span in _spans(recorded, "rl.loop")] == [1, 2, 3]
    assert [_number(span) for span in _spans(recorded, "rl.sample")] == [2]


def test_values_that_come_after_their_step_was_recorded_begin_no_other(recorded):
    _log(1, 100, **{"timing_s/step": 4.0})
    logged_steps._end()
    _log(1, 130, **{"timing_s/testing": 20.0})
    logged_steps._end()
    assert [_number(span) for span in _spans(recorded, "rl.loop")] == [1]


def test_a_step_of_logged_length_is_recorded_when_the_call_of_its_worker_ends_and_another_waits_for_more(recorded):
    _log(1, 100, reward=1.0)
    logged_steps.call_ended()
    assert not recorded.spans
    _log(1, 101, **{"perf/step_time": 4.0})
    logged_steps.call_ended()
    assert [_number(span) for span in _spans(recorded, "rl.loop")] == [1]


def test_values_of_an_earlier_step_begin_no_step_again(recorded):
    for step in range(1, 6):
        _log(step, 100 + step, **{"timing_s/step": 1.0})
        _log(step - 2, 100 + step, reward=0.5)
    logged_steps._end()
    assert [_number(span) for span in _spans(recorded, "rl.loop")] == [1, 2, 3, 4, 5]


def test_of_two_counters_the_one_with_times_has_the_steps(recorded):
    for rollout in range(4):
        for update in (0, 1):
            _log(2 * rollout + update, 100 + rollout, **{"train/loss": 0.1})
        _log(rollout, 101 + rollout, **{"perf/step_time": 1.0})
    logged_steps._end()
    timed = [span for span in _spans(recorded, "rl.loop") if _seconds(span) == 1]
    assert [_number(span) for span in timed][-2:] == [2, 3]
    assert len({span.context.span_id for span in recorded.spans}) == len(recorded.spans)


def test_steps_whose_numbers_begin_again_are_steps(recorded):
    for second, step in enumerate([*range(1, 21), *range(1, 21)]):
        _log(step, 100 + second, **{"timing_s/step": 1.0})
    logged_steps._end()
    numbers = [_number(span) for span in _spans(recorded, "rl.loop")]
    assert numbers[:20] == list(range(1, 21))
    assert numbers[-10:] == list(range(11, 21))


def test_a_worker_of_ray_has_a_loop_of_its_own(recorded, monkeypatch):
    manager = replace(process_identity.current(), worker_name="RolloutManager")
    monkeypatch.setattr(process_identity, "_current", manager)
    _log(1, 100, **{"perf/step_time": 4.0})
    logged_steps._end()
    assert {span.attributes["rl.loop.name"] for span in recorded.spans} == {"RolloutManager"}


def test_what_is_logged_in_a_call_of_somebodys_step_makes_no_steps(recorded):
    # As in an actor of slime, whose driver has the steps.
    token = attach(baggage.set_baggage("rl.loop.iteration", "1"))
    for step, second in ((1, 100), (2, 110)):
        _log(step, second, **{"rollout/raw_reward": 1.0, "perf/step_time": 4.0})
    detach(token)
    logged_steps._end()
    assert not _spans(recorded, "rl.loop")
    assert len(recorded.events("rl.step")) == 2


@pytest.mark.parametrize("beside", ["timeperf/rollout_pause", "timeperf/actor_offload"])
def test_what_is_held_or_moved_is_no_phase(recorded, beside):
    _log(1, 100, **{"timing_s/step": 4.0, beside: 1.0})
    logged_steps._end()
    assert not [span for span in recorded.spans if "rl.phase" in span.attributes]


@pytest.mark.parametrize("key", ["step", "train/global_step", "rollout/step", "train/step"])
def test_a_program_that_gives_its_tracker_the_step_as_a_value_has_steps_of_that_number(recorded, key):
    tracker = Tracker("wandb", Source.WANDB)
    for counter, step in ((20, 5), (21, 5), (22, 6)):
        tracker.log({"perf/step_time": 1.0, key: step}, counter=counter)
    logged_steps._end()
    assert [_number(span) for span in _spans(recorded, "rl.loop")] == [5, 6]


def test_per_token_times_and_perf_keys_that_are_no_times_are_no_phases(recorded):
    _log(1, 100, **{"timing_s/step": 4.0, "timing_per_token_ms/gen": 2.0, "perf/throughput": 100.0})
    logged_steps._end()
    assert not [span for span in recorded.spans if "rl.phase" in span.attributes]


def test_a_program_that_counts_log_calls_of_something_else_has_no_steps(recorded):
    for number in range(3):
        _log(number, 100 + number, accuracy=0.5, file=number)
    logged_steps._end()
    assert not _spans(recorded, "rl.loop")


def test_steps_that_the_program_marks_come_first(recorded):
    with_step = steps.begin(1, scope)
    assert with_step is not None
    _log(1, 100, **{"timing_s/step": 4.0})
    steps.finish()
    logged_steps._end()
    assert {span.attributes["rl.loop.source"] for span in _spans(recorded, "rl.loop")} == {RlLoopSourceValues.GIVEN}


def test_times_within_others_are_no_phases(recorded):
    times = {"generate": 20.0, "convert_to_training_input": 1.0, "policy_train": 29.0, "train_critic_and_policy": 30.0}
    _log(1, 200, **{f"timing/{name}": seconds for name, seconds in (times | {"sync_weights": 8, "step": 100}).items()})
    logged_steps._end()
    found = [(span.attributes["rl.phase"], _seconds(span)) for span in recorded.spans if "rl.phase" in span.attributes]
    assert found == [("sample", 20), ("train", 30), ("sync", 8)]


def test_an_evaluation_that_follows_the_timed_step_is_after_it(recorded):
    times = {"gen": 50.0, "update_actor": 49.0, "step": 100.0, "testing": 60.0, "save_checkpoint": 30.0}
    _log(1, 300, **{f"timing_s/{name}": seconds for name, seconds in times.items()})
    logged_steps._end()
    (step,) = _spans(recorded, "rl.loop")
    assert (step.start_time, step.end_time) == (110 * SECOND, 210 * SECOND)
    phases = [span.attributes["rl.phase"] for span in recorded.spans if "rl.phase" in span.attributes]
    assert phases == ["sample", "train"]
