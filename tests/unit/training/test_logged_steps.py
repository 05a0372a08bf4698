"""Steps and phases of a program of which only the log calls are known."""

from __future__ import annotations

import pytest

from otel_rl.semconv.attributes import RlLoopSourceValues
from otel_rl.telemetry import Scope, lifecycle
from otel_rl.training import logged_steps, steps
from otel_rl.training.scalars import Source, sink

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
        ("timing/make_experience", "sample"),
        ("timing_s/old_log_prob", "log_probs"),
        ("timeperf/recompute_logp", "log_probs"),
        ("time/reward", "reward"),
        ("perf/actor_train_time", "train"),
        ("timing_s/update_actor", "train"),
        ("perf/update_weights_time", "sync"),
        ("timing/broadcast", "sync"),
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
    lifecycle.run_shutdown_callbacks()
    assert {span.attributes["rl.loop.source"] for span in _spans(recorded, "rl.loop")} == {RlLoopSourceValues.GIVEN}
