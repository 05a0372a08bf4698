"""The text by which a call for the worker of a pool carries its step."""

from __future__ import annotations

import os

import pytest
from opentelemetry import baggage

import otel_rl
from otel_rl.semconv import attributes
from otel_rl.training import caller_steps, steps


@pytest.fixture(autouse=True)
def between_calls(recorded):
    yield
    caller_steps.begin_call(None)


def _in_worker(text):
    caller_steps.begin_call(text)
    return caller_steps.current()


def test_a_worker_reads_the_step_loop_process_and_trace_of_the_caller():
    with otel_rl.step(7, loop="main; ü"):
        text, span = caller_steps.message(), steps.where().step.span_context
    read = _in_worker(text)
    assert (read.iteration, read.loop, read.pid) == (7, "main; ü", os.getpid())
    assert (read.has_rewards, read.is_evaluation) == (True, False)
    assert (read.span_context.trace_id, read.span_context.span_id) == (span.trace_id, span.span_id)
    assert len(text) < 150


def test_a_call_outside_of_all_steps_carries_none():
    assert caller_steps.message() is None


@pytest.mark.parametrize("text", ["2;7;1;r;;", "2"])
def test_a_text_of_another_form_says_nothing(text):
    assert _in_worker(text) is None


def test_a_call_inside_of_a_workers_call_carries_the_step_of_that():
    with otel_rl.step(7):
        text = caller_steps.message()
    caller_steps.begin_call(text)
    assert caller_steps.message() == text


def test_the_rewards_of_a_trainer_that_logs_them_are_left_to_it():
    loop = steps.Loop("trainer")
    loop.logs_rewards = True
    step = steps.begin(4, otel_rl.telemetry.Scope("api"), loop)
    try:
        text = caller_steps.message()
    finally:
        loop.finish()
    read = _in_worker(text)
    assert step is not None
    assert read.of_rows() == {
        attributes.RL_LOOP_NAME: "trainer",
        attributes.RL_TRAJECTORIES_STEP: None,
        attributes.RL_TRAJECTORIES_CALLER_PID: os.getpid(),
        attributes.RL_TRAJECTORIES_RESTARTS: None,
    }


def test_the_next_call_leaves_the_step_of_the_one_before():
    with otel_rl.step(7):
        text = caller_steps.message()
    caller_steps.begin_call(text)
    assert baggage.get_baggage(attributes.RL_LOOP_ITERATION) == "7"
    caller_steps.begin_call(None)
    assert caller_steps.current() is None
    assert baggage.get_baggage(attributes.RL_LOOP_ITERATION) is None


def test_a_rollout_of_a_call_is_linked_to_the_step_of_its_caller(recorded):
    with otel_rl.step(7):
        text, of_step = caller_steps.message(), steps.where().step.span_context
    caller_steps.begin_call(text)
    with otel_rl.rollout("R"):
        pass
    span = recorded.span("rl.rollout")
    assert [link.context.span_id for link in span.links] == [of_step.span_id]
    assert span.attributes[attributes.RL_LOOP_ITERATION] == 7
