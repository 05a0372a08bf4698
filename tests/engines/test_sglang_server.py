"""A real SGLang on the CPU, plain and under `opentelemetry-instrument`: its answers and its own spans."""

from __future__ import annotations

import pytest
from conformance.live_check import check
from engine_runs import read, run
from sglang_server import Served
from support.otlp_servers import http_server

pytest.importorskip("sglang")
pytestmark = pytest.mark.quick

#: Calls of one prompt that the engine has answered with tokens: in the first step, in the second.
SINGLE = 7, 3
#: Prompts of the call that asks for two samples of each.
PROMPTS = 2
PATHS = ["pause_generation", "update_weights_from_disk", "continue_generation"]
#: Rollouts of the second step that were answered.
LATER = ("generate-httpx", "chat-requests", "aborted")


@pytest.fixture(scope="module", params=[False, True], ids=["plain server", "instrumented server"])
def served(request, tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("sglang")
    with http_server() as receiver:
        with Served(folder / "server", model, receiver, watched=request.param) as server:
            server.client = run("sglang_program.py", folder / "client", server.url, str(model), watched=True)
            server.unwatched = run("sglang_program.py", folder / "unwatched", server.url, str(model), watched=False)
            server.found = server.requests(sum(SINGLE) + PROMPTS)
        server.store = read(folder / "server" / "data")
        server.data = folder / "client" / "data"
        yield server


def calls(served, name=None):
    """Attributes of the calls, or of those in the rollout of this name."""
    found = [*served.client.store.named("text_completion"), *served.client.store.named("chat tiny")]
    return [call["attributes"] for call in found if name in (None, call["attributes"]["rl.rollout.id"])]


def test_the_answers_are_those_that_the_program_has_without_us(served):
    first, again = served.client.result, served.unwatched.result
    assert first == again
    for form in ("text", "chat"):
        assert len(set(first[form])) == 1
        assert first[form][0]
    assert (first["aborted"], first["failed"]) == ("abort", [400, 200, True])


@pytest.mark.parametrize("name", ["generate-requests", "generate-stream"])
def test_a_call_of_generate_has_the_tokens_times_and_version_of_its_meta_info(served, name):
    [call] = calls(served, name)
    assert call["rl.inference.engine"] == "sglang"
    assert call["rl.inference.weight_version"] == "default"
    assert call["gen_ai.response.finish_reasons"] == ["length"]
    assert call["gen_ai.usage.output_tokens"] == call["rl.inference.token_ids.count"] == 4
    assert call["gen_ai.usage.input_tokens"] > 0
    assert 0 < call["rl.engine.queue_time"] < call["rl.engine.time_to_first_token"] < call["rl.engine.request_time"]


def test_samples_of_several_prompts_are_one_call_that_counts_each_prompt_once(served):
    [call] = calls(served, "samples")
    [one] = calls(served, "generate-requests")
    assert call["gen_ai.request.choice.count"] == 2
    assert call["gen_ai.response.finish_reasons"] == ["length"] * 4
    assert call["rl.inference.logprobs.count"] == call["gen_ai.usage.output_tokens"] == 16
    assert call["gen_ai.usage.input_tokens"] < 4 * one["gen_ai.usage.input_tokens"]


@pytest.mark.parametrize("name", ["chat-httpx", "chat-requests", "chat-openai"])
def test_a_chat_has_its_tokens_and_the_version_of_the_weights(served, name):
    [call] = calls(served, name)[:1]
    assert (call["rl.inference.engine"], call["gen_ai.usage.output_tokens"]) == ("sglang", 4)
    assert call["rl.inference.weight_version"] == "default"


def test_a_streamed_chat_has_tokens_and_no_version_which_no_event_of_it_has(served):
    [call] = calls(served, "chat-stream")
    assert call["rl.inference.stream.ended"] == "completed"
    assert call["gen_ai.usage.output_tokens"] == 4
    assert "rl.inference.weight_version" not in call


def test_an_update_from_disk_is_an_operation_and_one_that_is_refused_has_failed(served):
    [phase, *operations] = served.client.store.named("rl.sync")
    found = [one["attributes"] for one in operations]
    assert [one["rl.sync.operation"] for one in found] == [*PATHS, *PATHS, "abort_request"]
    assert {one["parentSpanId"] for one in operations[: 2 * len(PATHS)]} == {phase["spanId"]}
    updates = [one for one in found if one["rl.sync.operation"] == PATHS[1]]
    assert [(one["rl.policy.version"], one.get("error.type")) for one in updates] == [("7", None), ("8", "400")]


def test_answers_after_the_update_have_its_version_and_are_not_behind(served):
    rollouts = [one["attributes"] for one in served.client.store.named("rl.rollout")]
    later = [one for one in rollouts if one["rl.loop.iteration"] == 2 and one["rl.rollout.id"] in LATER]
    assert len(later) == len(LATER)
    for one in later:
        assert (one["rl.rollout.policy_version.min"], one["rl.rollout.policy_version.max"]) == (7, 7)
        assert one["rl.rollout.versions_behind"] == 0


def test_an_aborted_stream_keeps_what_was_generated(served):
    [call] = calls(served, "aborted")
    assert call["gen_ai.response.finish_reasons"] == ["abort"]
    assert 0 < call["gen_ai.usage.output_tokens"] < 900
    assert "error.type" not in call


@pytest.mark.parametrize(("name", "error"), [("refused", "400"), ("refused-stream", "invalid_request_error")])
def test_a_refusal_is_an_error_with_any_status(served, name, error):
    [call] = calls(served, name)
    assert call["error.type"] == error
    assert "gen_ai.usage.output_tokens" not in call


def test_the_step_sums_up_what_the_engine_did(served):
    first, second = (step["attributes"] for step in served.client.store.named("rl.rank.step"))
    assert (first["rl.engine.requests"], second["rl.engine.requests"]) == (SINGLE[0] + PROMPTS, SINGLE[1])
    # Chats have no times.
    assert (first["rl.engine.profiled_requests"], second["rl.engine.profiled_requests"]) == (3 + PROMPTS, 2)
    assert second["rl.engine.aborted_samples"] == 1
    for step in (first, second):
        assert step["rl.engine.time_to_first_token"] >= step["rl.engine.prefill_time"] > 0


def test_the_leader_asks_the_server_for_its_queue_and_cache(served):
    place = {"server__port": int(served.url.rpartition(":")[2])}
    for name in ("requests.running", "requests.waiting", "kv_cache.usage"):
        assert float(served.client.store.last(f"rl.engine.{name}", **place)["asDouble"]) >= 0


def test_the_servers_own_spans_are_children_of_the_calls(served):
    """Each in the trace of its rollout; what the server refuses has none, or has one like the others."""
    store = served.client.store
    spans = [*store.named("text_completion"), *store.named("chat tiny")]
    made = {(span["traceId"], span["spanId"]): span["attributes"] for span in spans}
    parents = {(span.trace_id.hex(), span.parent_span_id.hex()) for span in served.found}
    assert parents <= set(made)
    answered = {place for place, call in made.items() if "error.type" not in call}
    assert answered <= parents
    inside = {span.name for span in served.spans() if (span.trace_id.hex()) in {trace for trace, _ in answered}}
    assert {"tokenize", "prefill_forward", "decode_forward"} <= inside


def test_the_server_says_nothing_of_us_and_its_endpoint_gets_the_spans_of_all_its_processes(served):
    assert "Overriding of current TracerProvider" not in served.log
    assert "otel-rl: error" not in served.log
    names = {span.name.partition("(")[0].split(" ")[0] for span in served.spans()}
    assert {"Tokenizer", "Scheduler"} <= names
    assert bool(served.store.spans) == served.watched


def test_what_is_recorded_conforms_to_the_registry(served):
    assert check(served.data) == []
