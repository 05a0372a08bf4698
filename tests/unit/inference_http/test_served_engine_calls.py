"""Calls of engines over HTTP, with every client: spans, metrics, trace context, and nothing of other traffic."""

from __future__ import annotations

import gc
import json
import re

import pytest
from support.engine_server import COMPLETION, SGLANG, TRL_GENERATE
from unit.inference_http.http_posts import INSTALLED, post

from otel_rl import rollout, step
from otel_rl.inference.dropped_answers import record_abandoned

SAMPLING = {"max_new_tokens": 16, "temperature": 0.5}


def test_a_generation_of_sglang_is_a_call_with_tokens_reason_times_and_version_of_the_weights(
    client, server, instrumented
):
    answer = post(client, f"{server.url}/generate", json={"text": "hi", "sampling_params": SAMPLING})

    assert answer == SGLANG
    found = dict(instrumented.span("text_completion").attributes)
    assert found["gen_ai.usage.input_tokens"] == 7
    assert found["gen_ai.usage.output_tokens"] == 3
    assert found["gen_ai.usage.cache_read.input_tokens"] == 4
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["gen_ai.request.max_tokens"] == 16
    assert found["gen_ai.request.temperature"] == 0.5
    assert found["rl.inference.weight_version"] == "12"
    assert found["rl.inference.engine"] == "sglang"
    assert found["rl.engine.queue_time"] == 0.25
    assert found["rl.engine.time_to_first_token"] == 0.375
    assert found["server.port"] == server.server_port
    [duration] = instrumented.metrics()["gen_ai.client.operation.duration"]
    assert duration.count == 1


def test_several_samples_count_the_tokens_of_their_prompt_once(client, server, instrumented):
    post(client, f"{server.url}/generate", json={"text": "hi", "sampling_params": {"n": 3}})

    found = instrumented.span("text_completion").attributes
    assert found["gen_ai.usage.input_tokens"] == 7
    assert found["gen_ai.usage.output_tokens"] == 9
    assert found["gen_ai.response.finish_reasons"] == ("stop",) * 3


def test_a_generation_of_vllm_from_tokens_counts_the_tokens_of_its_answer(client, server, instrumented):
    sampling = {"max_tokens": 2, "top_p": 0.9}
    body = {"model": "tiny", "token_ids": [1, 2, 3], "sampling_params": sampling}
    post(client, f"{server.url}/inference/v1/generate", json=body)

    found = instrumented.span("text_completion tiny").attributes
    assert found["gen_ai.usage.output_tokens"] == 2
    assert found["gen_ai.request.max_tokens"] == 2
    assert found["gen_ai.response.finish_reasons"] == ("length",)
    assert found["gen_ai.response.id"] == "gen-1"
    assert found["rl.inference.engine"] == "vllm"


def test_a_batch_of_the_server_of_trl_counts_the_tokens_of_all_prompts_and_completions(client, server, instrumented):
    assert post(client, f"{server.url}/generate/", json={"prompts": ["a", "b"], "n": 2}) == TRL_GENERATE

    found = instrumented.span("text_completion").attributes
    assert found["gen_ai.usage.input_tokens"] == 5
    assert found["gen_ai.usage.output_tokens"] == 5


def test_the_protocol_of_openai_is_followed_without_its_client(client, server, instrumented):
    assert post(client, f"{server.url}/v1/completions", json={"model": "tiny", "prompt": "hi"}) == COMPLETION

    found = instrumented.span("text_completion tiny").attributes
    assert found["gen_ai.usage.output_tokens"] == 2
    assert found["gen_ai.response.model"] == "tiny-served"


def test_a_body_given_as_bytes_is_read_where_it_is_short(client, server, instrumented):
    body = json.dumps({"text": "hi", "sampling_params": SAMPLING}).encode()
    post(client, f"{server.url}/generate", content=body, headers={"content-type": "application/json"})

    assert instrumented.span("text_completion").attributes["gen_ai.request.max_tokens"] == 16


def test_an_answer_that_is_parsed_elsewhere_ends_the_call_with_its_tokens(client, server, instrumented):
    assert json.loads(post(client, f"{server.url}/generate", read="text", json={"text": "hi"})) == SGLANG

    gc.collect()
    record_abandoned()
    assert instrumented.span("text_completion").attributes["gen_ai.usage.output_tokens"] == 3


def test_an_answer_that_nobody_reads_ends_the_call(client, server, instrumented):
    assert post(client, f"{server.url}/generate", read="status", json={"text": "hi"}) == 200

    gc.collect()
    record_abandoned()
    assert instrumented.span("text_completion").end_time is not None


def test_a_refused_call_fails_with_its_status(client, server, instrumented):
    server.status = 503
    assert post(client, f"{server.url}/generate", read="status", json={"text": "hi"}) == 503

    span = instrumented.span("text_completion")
    assert span.attributes["error.type"] == "503"
    assert not span.status.is_ok


ERRORS = {
    "vllm": ({"error": {"message": "m", "type": "BadRequestError", "code": 400}}, "BadRequestError"),
    "sglang": ({"object": "error", "message": "m", "type": "InternalServerError", "code": 500}, "InternalServerError"),
    "no name": ({"error": {"message": "the scheduler is gone"}}, "answer_error"),
}
PATHS = ("/generate", "/v1/completions", "/v1/chat/completions", "/inference/v1/generate")


@pytest.mark.parametrize("path", PATHS)
def test_an_error_in_the_body_of_a_200_fails_the_call(client, server, instrumented, path):
    # Each client with each path, each error and both ways to read; each path with each error, read in both ways. What
    # is an error, one function decides for all clients (tests/unit/inference/test_failed_answers.py).
    number = INSTALLED.index(client) + PATHS.index(path)
    error, expected = list(ERRORS.values())[number % len(ERRORS)]
    read = ("json", "text")[number % 2]
    server.raw = json.dumps(error).encode()
    with rollout():
        got = post(client, f"{server.url}{path}", read=read, json={"prompt": "hi"})
        assert (got if read == "json" else json.loads(got)) == error

    [call] = [span for span in instrumented.spans if span.name != "rl.rollout"]
    assert call.attributes["error.type"] == expected
    assert not call.status.is_ok
    assert instrumented.span("rl.rollout").attributes["rl.rollout.model_errors"] == 1


def test_a_server_that_is_gone_fails_the_call_with_the_error_of_the_client(client, server, instrumented):
    server.shutdown()
    server.server_close()
    with pytest.raises(Exception, match=r".+") as raised:
        post(client, f"{server.url}/generate", json={"text": "hi"})

    assert instrumented.span("text_completion").attributes["error.type"].endswith(type(raised.value).__name__)


@pytest.mark.parametrize(
    "raw", [b"no json", b"[]", b"[1]", b'{"meta_info": 3}', b'{"meta_info": {"prompt_tokens": -1}}', b'{"choices": 7}']
)
def test_an_answer_of_another_form_changes_nothing_for_the_program(client, server, instrumented, raw):
    server.raw = raw
    assert post(client, f"{server.url}/generate", read="text", json={"text": "hi"}) == raw.decode()
    gc.collect()
    record_abandoned()

    assert "gen_ai.usage.output_tokens" not in (instrumented.span("text_completion").attributes or {})


def test_the_trace_context_is_sent_exactly_once_and_names_the_call(client, server, instrumented):
    post(client, f"{server.url}/generate", json={"text": "hi"})

    span = instrumented.span("text_completion").get_span_context()
    [sent] = server.headers("traceparent")
    assert sent.split("-")[1:3] == [f"{span.trace_id:032x}", f"{span.span_id:016x}"]


def test_a_trace_context_of_the_program_stays(client, server, instrumented):
    mine = f"00-{1:032x}-{2:016x}-01"
    post(client, f"{server.url}/generate", json={"text": "hi"}, headers={"traceparent": mine})

    assert server.headers("traceparent") == [mine]


def test_baggage_of_a_rollout_goes_along_and_the_call_counts_in_it(client, server, instrumented):
    with rollout(rollout_id="r1"):
        post(client, f"{server.url}/generate", json={"text": "hi"})

    assert "rl.rollout.id=r1" in server.headers("baggage")[0]
    found = instrumented.span("rl.rollout").attributes
    assert found["rl.rollout.model_calls"] == 1
    assert found["rl.rollout.output_tokens"] == 3


@pytest.mark.parametrize("path", ["/", "/generated", "/api/generate", "/v2/responses", "/weights", "/health"])
def test_other_traffic_has_no_span_and_no_trace_context(client, server, instrumented, path):
    post(client, f"{server.url}{path}", json={"text": "hi"})

    assert instrumented.spans == []
    assert server.headers("traceparent") == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("update_weights_from_distributed", {"names": ["w"], "weight_version": "13"}),
        ("finish_weight_update", {"weight_version": 13}),
        ("init_communicator", None),
    ],
)
def test_bringing_weights_is_the_phase_sync(client, server, instrumented, path, body):
    with step(iteration=1):
        post(client, f"{server.url}/{path}/", read="status", json=body)

    span = instrumented.span("rl.sync")
    assert span.attributes["rl.sync.operation"] == path
    assert span.attributes.get("rl.policy.version") == (None if body is None else "13")
    assert server.headers("traceparent")[0].split("-")[2] == f"{span.get_span_context().span_id:016x}"
    assert [point.count for point in instrumented.metrics()["rl.sync.operation.duration"]] == [1]


def test_a_weight_update_that_is_refused_fails_the_phase(client, server, instrumented):
    server.status = 500
    with step(iteration=1):
        post(client, f"{server.url}/update_weights", read="status", json={})

    assert instrumented.span("rl.sync").attributes["error.type"] == "500"


@pytest.mark.parametrize("url", ["http://[", "nowhere"])
def test_an_address_that_is_none_raises_the_error_of_the_client(client, instrumented, url):
    raised = []
    for _ in range(2):
        with pytest.raises(Exception, match=r".+") as error:
            post(client, url, json={"text": "hi"})
        raised.append((error.type, re.sub("0x[0-9a-f]+", "", str(error.value))))

    assert len(set(raised)) == 1
    assert instrumented.spans == []


def test_a_switched_off_instrumentation_records_nothing(client, server, instrumented):
    from opentelemetry.instrumentation.utils import suppress_instrumentation

    with suppress_instrumentation():
        assert post(client, f"{server.url}/generate", json={"text": "hi"}) == SGLANG
    assert instrumented.spans == []


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_an_answer_that_is_read_in_pieces_and_parsed_then_has_its_tokens(library, server, instrumented):
    module = pytest.importorskip(library)
    with module.Client() as made, made.stream("POST", f"{server.url}/generate", json={"text": "hi"}) as response:
        response.read()
        assert response.json() == SGLANG

    assert instrumented.span("text_completion").attributes["gen_ai.usage.output_tokens"] == 3


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
@pytest.mark.parametrize(("ended", "whole"), [("completed", True), ("closed", False)])
def test_a_stream_ends_its_call_when_it_is_closed_and_says_how(library, server, instrumented, ended, whole):
    module = pytest.importorskip(library)
    body = {"text": "hi", "stream": True}
    with module.Client() as made, made.stream("POST", f"{server.url}/generate", json=body) as response:
        if whole:
            assert b"".join(response.iter_bytes())

    assert instrumented.span("text_completion").attributes["rl.inference.stream.ended"] == ended


def test_responses_and_requests_hold_nothing_of_ours(server, instrumented):
    """They are pickled by programs that send them to other processes."""
    import pickle

    requests = pytest.importorskip("requests")
    httpx = pytest.importorskip("httpx")
    for response in (
        requests.post(f"{server.url}/generate", json={"text": "hi"}, timeout=60),
        httpx.post(f"{server.url}/generate", json={"text": "hi"}),
    ):
        assert pickle.loads(pickle.dumps(response)).json() == SGLANG  # noqa: S301 - our own bytes
