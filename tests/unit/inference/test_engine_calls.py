"""Calls of an engine in the process: one span, histograms per request, and what a fork or a failure leaves."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

import otel_rl
from otel_rl.inference.engine_calls import EngineCall
from otel_rl.semconv import attributes, metrics
from otel_rl.telemetry import Scope, lifecycle

scope = Scope("test_engines")


def call(**options):
    return EngineCall(scope, "chat", "vllm", "/models/tiny", **options)


def test_a_call_is_current_until_it_ends_and_is_of_this_process(recorded):
    one = call(values={attributes.GEN_AI_REQUEST_SEED: 3})
    one.enter()
    assert trace.get_current_span() is one.span
    one.finish()
    assert trace.get_current_span() is not one.span
    span = recorded.span("chat tiny")
    assert span.kind is SpanKind.INTERNAL
    assert span.attributes[attributes.GEN_AI_REQUEST_MODEL] == "tiny"
    assert span.attributes[attributes.GEN_AI_REQUEST_SEED] == 3


def test_times_of_many_calls_are_in_one_series_with_the_slowest_as_exemplar(recorded):
    for number in range(3):
        one = call()
        one.requests.add(4, 2, ["stop"], {attributes.RL_ENGINE_QUEUE_TIME: 0.5 + number}, cached_tokens=3)
        one.finish()
    points = recorded.metrics()
    [queue] = points[metrics.RL_ENGINE_QUEUE_DURATION.name]
    assert (queue.count, queue.sum) == (3, 4.5)
    [cached] = points[metrics.RL_ENGINE_CACHED_TOKENS.name]
    assert cached.value == 9
    assert metrics.RL_ENGINE_PREFILL_DURATION.name not in points
    [duration] = points[metrics.RL_ENGINE_CALL_DURATION.name]
    assert duration.count == 3


def test_a_failed_call_is_an_error_and_a_series_of_its_own(recorded):
    call().finish()
    call().finish(ValueError("no"))
    assert sorted(span.status.status_code.name for span in recorded.spans) == ["ERROR", "UNSET"]
    durations = recorded.metrics()[metrics.RL_ENGINE_CALL_DURATION.name]
    assert {point.attributes.get(attributes.ERROR_TYPE) for point in durations} == {None, "ValueError"}


def test_a_call_without_a_span_is_measured(recorded):
    one = call(has_span=False)
    one.enter()
    one.requests.add(1, 5, ["length"])
    one.finish(values={attributes.RL_INFERENCE_WEIGHT_VERSION: "1"})
    assert recorded.spans == []
    tokens = recorded.metrics()[metrics.RL_ENGINE_TOKENS.name]
    assert {point.attributes[attributes.GEN_AI_TOKEN_TYPE]: point.value for point in tokens} == {
        "input": 1,
        "output": 5,
    }


@pytest.mark.parametrize("again", [None, ValueError("later")])
def test_only_the_first_end_counts(recorded, again):
    one = call()
    one.finish()
    one.finish(again)
    assert recorded.span("chat tiny").status.status_code is StatusCode.UNSET


def test_a_forked_child_leaves_the_call_to_its_parent(recorded, monkeypatch):
    one = call()
    monkeypatch.setattr(lifecycle, "forks", lifecycle.forks + 1)
    one.finish()
    assert recorded.spans == []
    monkeypatch.undo()
    one.finish()
    assert recorded.span("chat tiny")


def test_without_a_provider_of_a_model_the_span_has_the_name_of_the_operation(recorded):
    EngineCall(scope, "chat", "vllm", "").finish()
    assert attributes.GEN_AI_REQUEST_MODEL not in recorded.span("chat").attributes


def test_a_call_inside_a_rollout_counts_in_its_trajectory(recorded):
    with otel_rl.rollout():
        good = call()
        good.requests.add(4, 2, ["stop"])
        good.finish()
        call().finish(ValueError("no"))
    values = recorded.span("rl.rollout").attributes
    assert (values[attributes.RL_ROLLOUT_MODEL_CALLS], values[attributes.RL_ROLLOUT_MODEL_ERRORS]) == (2, 1)
    assert (values[attributes.RL_ROLLOUT_INPUT_TOKENS], values[attributes.RL_ROLLOUT_OUTPUT_TOKENS]) == (4, 2)
    assert values[attributes.RL_ROLLOUT_STOP_REASON] == "stop"


def test_a_call_that_judges_or_that_a_tool_makes_is_no_turn(recorded):
    with otel_rl.rollout():
        with otel_rl.phase("reward"):
            judge = call()
            judge.requests.add(4, 2, ["stop"])
            judge.finish(values={attributes.RL_POLICY_VERSION: "900"})
        with otel_rl.tool("delegate"):
            call().finish(ValueError("no"))
    values = recorded.span("rl.rollout").attributes
    assert attributes.RL_ROLLOUT_MODEL_CALLS not in values
    assert (values[attributes.RL_ROLLOUT_JUDGE_CALLS], values[attributes.RL_ROLLOUT_JUDGE_OUTPUT_TOKENS]) == (1, 2)
    assert (values[attributes.RL_ROLLOUT_TOOL_MODEL_CALLS], values[attributes.RL_ROLLOUT_TOOL_MODEL_ERRORS]) == (1, 1)
    judged = [span for span in recorded.spans if span.attributes.get(attributes.RL_INFERENCE_ROLE) == "judge"]
    assert [attributes.RL_ROLLOUT_TURN in span.attributes for span in judged] == [False]
