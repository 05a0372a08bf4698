"""A program with vLLM's `AsyncLLM`, whose engine and workers are processes, plain and instrumented."""

from __future__ import annotations

import pytest
from conformance.live_check import check
from engine_runs import run
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.otlp_servers import http_server

pytest.importorskip("vllm")

COMPLETED = {"final", "deltas", "cumulative", "several", "after", *(f"concurrent-{number}" for number in range(4))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("async")


@pytest.fixture(scope="module")
def plain(folder, model):
    return run("async_program.py", folder / "plain", str(model), watched=False)


@pytest.fixture(scope="module")
def exported():
    """Takes what vLLM's own tracer exports."""
    with http_server() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def watched(folder, model, exported):
    endpoint = f"http://127.0.0.1:{exported.port}/v1/traces"
    variables = {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}
    return run("async_program.py", folder / "watched", str(model), endpoint, watched=True, **variables)


@pytest.fixture(scope="module")
def requests(watched):
    found = watched.store.named("text_completion tiny")
    return {span["attributes"]["gen_ai.response.id"]: span for span in found}


def test_the_engine_and_its_processes_do_what_they_do_without_us(plain, watched):
    assert watched.result == plain.result
    assert watched.result["unfinished"] == 0
    assert "Overriding of current TracerProvider" not in watched.stderr
    assert "Traceback" not in watched.stderr


def test_a_request_is_a_child_of_the_rollout_that_waits_for_it(watched, requests):
    rollouts = {span["attributes"]["rl.rollout.id"]: span for span in watched.store.named("rl.rollout")}
    assert set(requests) == set(rollouts) == {*COMPLETED, "left", "cancelled"}
    for name, request in requests.items():
        assert (request["traceId"], request["parentSpanId"]) == (rollouts[name]["traceId"], rollouts[name]["spanId"])


def test_tokens_are_those_of_the_request_however_the_outputs_come(requests):
    counted = {name: requests[name]["attributes"]["gen_ai.usage.output_tokens"] for name in COMPLETED}
    assert counted == dict.fromkeys(COMPLETED, 6) | {"several": 12}
    for name in COMPLETED:
        found = requests[name]["attributes"]
        assert found["rl.inference.stream.ended"] == "completed"
        assert found["rl.engine.prefill_time"] > 0


def test_leaving_the_outputs_early_is_no_error_and_a_cancelled_task_is_one(requests):
    left, cancelled = requests["left"], requests["cancelled"]
    assert left["attributes"]["rl.inference.stream.ended"] == "closed"
    assert left["status"].get("code") is None
    assert cancelled["attributes"]["rl.inference.stream.ended"] == "cancelled"
    assert cancelled["status"]["code"] == 2
    assert left["attributes"]["rl.engine.aborted_samples"] == cancelled["attributes"]["rl.engine.aborted_samples"] == 1


def test_a_request_that_nobody_asked_for_an_output_of_has_no_span(requests):
    assert "never" not in requests


def test_the_engines_own_spans_are_children_of_ours_here_and_at_its_own_endpoint(watched, requests, exported):
    ours = [span for span in watched.store.spans if span["name"] == "llm_request"]
    theirs = [
        span
        for _, _, body in exported.requests
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        if span.name == "llm_request"
    ]
    children_of = {span["parentSpanId"] for span in ours}
    assert {requests[name]["spanId"] for name in COMPLETED} <= children_of
    assert children_of <= {span["spanId"] for span in requests.values()}
    assert {span.parent_span_id.hex() for span in theirs} == children_of


def test_operations_on_the_engine_are_spans_and_its_version_rises(watched, requests):
    operations = ["pause_generation", "reset_prefix_cache", "update_weight_version", "resume_generation"]
    assert watched.store.operations() == [*operations, "sleep", "wake_up"]
    assert requests["final"]["attributes"]["rl.policy.version"] == "0"
    assert requests["after"]["attributes"]["rl.policy.version"] == "v1"


def test_what_is_recorded_conforms_to_the_registry(watched, folder):
    assert check(folder / "watched") == []
