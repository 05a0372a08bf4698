"""vLLM's OpenAI server, plain and under `opentelemetry-instrument`: its own spans join the rollouts of the client."""

from __future__ import annotations

import pytest
from engine_runs import read, run
from support.otlp_servers import http_server
from vllm_server import Served

pytest.importorskip("vllm")

ROLLOUTS = 14
#: Calls in the first and in the second step.
STEPS = (4, 3)


@pytest.fixture(scope="module", params=[False, True], ids=["plain server", "instrumented server"])
def served(request, tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("served")
    with http_server() as receiver:
        server = Served(folder / "server", model, receiver, watched=request.param)
        try:
            server.wait_until_it_answers()
            server.client = run("served_program.py", folder / "client", f"{server.url}/v1", watched=True)
            server.found = server.engine_spans(ROLLOUTS)
        finally:
            server.stop()
        server.store = read(folder / "server" / "data")
        server.watched = request.param
        yield server


def test_every_span_of_the_engine_is_a_child_of_the_call_in_its_rollout(served):
    calls = {(call["traceId"], call["spanId"]) for call in served.client.store.named("chat tiny")}
    rollouts = {rollout["traceId"] for rollout in served.client.store.named("rl.rollout")}
    engine = {(span.trace_id.hex(), span.parent_span_id.hex()) for span in served.found}
    assert len(served.found) == len(calls) == len(rollouts) == ROLLOUTS
    assert engine == calls
    assert {trace for trace, _ in engine} == rollouts


def test_a_call_by_a_client_for_http_has_the_tokens_that_the_server_counted(served):
    calls = [call["attributes"] for call in served.client.store.named("chat tiny")]
    tokens = {(call["gen_ai.usage.input_tokens"], call["gen_ai.usage.output_tokens"]) for call in calls}
    # All of them asked the same.
    assert len(tokens) == 1
    assert all(count > 0 for count in tokens.pop())


def test_a_stream_by_a_client_for_http_ended_and_has_what_the_server_said(served):
    calls = [call["attributes"] for call in served.client.store.named("chat tiny")]
    streams = [call for call in calls if call.get("gen_ai.request.stream")]
    assert len(streams) == STEPS[1]
    for call in streams:
        assert call["rl.inference.stream.ended"] == "completed"
        assert call["gen_ai.response.finish_reasons"]
        assert call["rl.inference.engine"] == "vllm"
        assert call["gen_ai.response.time_to_first_chunk"] > 0


def test_each_answer_has_as_many_log_probabilities_as_tokens_streamed_or_not(served):
    calls = [call["attributes"] for call in served.client.store.named("chat tiny")]
    assert len(calls) == ROLLOUTS
    for call in calls:
        assert call["rl.inference.logprobs.count"] == call["gen_ai.usage.output_tokens"] > 0


def test_a_step_sums_up_what_the_server_did_for_all_clients(served):
    steps = [step["attributes"] for step in served.client.store.named("rl.rank.step")]
    assert tuple(step["rl.engine.requests"] for step in steps) == STEPS
    for step in steps:
        assert step["rl.engine.profiled_requests"] == step["rl.engine.requests"]
        assert step["rl.engine.output_tokens"] > 0
        assert step["rl.engine.time_to_first_token"] >= step["rl.engine.prefill_time"] > 0


def test_what_a_trainer_does_to_its_server_are_operations_in_its_phase(served):
    [phase, *operations] = served.client.store.named("rl.sync")
    expected = ["pause", "sleep", "wake_up", "update_weight_version", "reset_prefix_cache", "resume"]
    assert [one["attributes"]["rl.sync.operation"] for one in operations] == expected
    assert {one["parentSpanId"] for one in operations} == {phase["spanId"]}
    [named] = [one["attributes"] for one in operations if "rl.policy.version" in one["attributes"]]
    assert (named["rl.sync.operation"], named["rl.policy.version"]) == ("update_weight_version", "v1")
    assert int(served.client.store.last("rl.sync.operation.duration", rl__sync__operation="sleep")["count"]) == 1


def test_the_server_starts_and_answers_without_a_word_about_its_tracer(served):
    assert len(set(served.client.result)) == 1
    assert "Overriding of current TracerProvider" not in served.log
    assert "Traceback" not in served.log


def test_a_served_request_has_the_engines_own_span_and_none_of_ours(served):
    names = {span["name"] for span in served.store.spans}
    assert ("llm_request" in names) == served.watched
    assert "text_completion tiny" not in names
    if served.watched:
        assert int(served.store.last("rl.engine.call.duration")["count"]) == ROLLOUTS
