"""What engines behind HTTP did in a step, on the span of the step: the same as of an engine in the process."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from types import SimpleNamespace

import pytest
from support.engine_server import CHAT_EVENTS, META_INFO
from unit.inference_http.http_posts import post
from unit.inference_http.http_streams import COMMON, read_stream

from otel_rl import rollout, step
from otel_rl.inference.answers import Answer
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.inference.engine_answers import add

CHAT = "/v1/chat/completions"
#: As slime's patch of SGLang 0.5.15 answers with a prefill server and a decode server; from its source, not from a run.
DISAGGREGATED = {
    **META_INFO,
    "decode_throughput": 16.0,
    "pd_prefill_bootstrap_queue_duration": 0.004,
    "pd_prefill_bootstrap_duration": 0.02,
    "pd_prefill_alloc_wait_duration": 0.001,
    "pd_prefill_forward_duration": 0.1,
    "pd_prefill_transfer_queue_duration": 0.05,
    "pd_prefill_retry_count": 1,
    "pd_decode_prealloc_duration": 0.01,
    "pd_decode_bootstrap_duration": 0.003,
    "pd_decode_alloc_wait_duration": 0.007,
    "pd_decode_transfer_duration": 0.03,
    "pd_decode_forward_duration": 0.4,
    "pd_transfer_speed_gb_s": 0.5,
    "pd_transfer_total_mb": 12.5,
}
#: Each of them on the span of the call, and as the mean of the step.
TIMES = {
    "queue_time": 0.25,
    "time_to_first_token": 0.375,
    "request_time": 0.5,
    "decode_throughput": 16.0,
    "prefill_time": 0.1,
    "decode_time": 0.4,
    "transfer_time": 0.03,
    "prefill.bootstrap_queue_time": 0.004,
    "prefill.bootstrap_time": 0.02,
    "prefill.alloc_wait_time": 0.001,
    "prefill.transfer_queue_time": 0.05,
    "prefill.retries": 1.0,
    "decode.prealloc_time": 0.01,
    "decode.bootstrap_time": 0.003,
    "decode.alloc_wait_time": 0.007,
    "transfer_speed": 0.5 * 1024**3,
    "transfer_size": 12.5 * 1024**2,
}
SPREADS = ("median.", "p95.", "max.")


def of_step(instrumented):
    attributes = instrumented.span("rl.rank.step").attributes
    return engine_attributes(attributes)


def engine_attributes(attributes):
    return {name.removeprefix("rl.engine."): value for name, value in attributes.items() if ".engine." in name}


def test_a_step_has_the_requests_tokens_and_times_of_sglang(client, server, instrumented):
    with step(iteration=1):
        for _ in range(2):
            with rollout():
                post(client, f"{server.url}/generate", json={"text": "hi"})

    found = of_step(instrumented)
    assert {name: value for name, value in found.items() if not name.startswith(SPREADS)} == {
        "requests": 2,
        "profiled_requests": 2,
        "samples": 2,
        "truncated_samples": 0,
        "aborted_samples": 0,
        "input_tokens": 14,
        "output_tokens": 6,
        "cached_tokens": 8,
        "queue_time": 0.25,
        "time_to_first_token": 0.375,
        "prefill_time": 0.125,
        "decode_time": 0.125,
        "request_time": 0.5,
    }


def test_prefill_and_decode_servers_say_their_own_times_and_the_transfer(client, server, instrumented):
    server.raw = json.dumps({"text": "a", "meta_info": DISAGGREGATED}).encode()
    with step(iteration=1):
        post(client, f"{server.url}/generate", json={"text": "hi"})

    [call] = [span for span in instrumented.spans if span.name == "text_completion"]
    assert engine_attributes(call.attributes) == pytest.approx(TIMES)
    found = of_step(instrumented)
    for spread in ("", *SPREADS):
        assert {name: found[f"{spread}{name}"] for name in TIMES} == pytest.approx(TIMES), spread
    points = instrumented.metrics()
    stages = {point.attributes["rl.engine.stage"]: point.sum for point in points["rl.engine.stage.duration"]}
    assert stages == pytest.approx(
        {
            "prefill_bootstrap_queue": 0.004,
            "prefill_bootstrap": 0.02,
            "prefill_alloc_wait": 0.001,
            "prefill_transfer_queue": 0.05,
            "decode_prealloc": 0.01,
            "decode_bootstrap": 0.003,
            "decode_alloc_wait": 0.007,
        }
    )
    [queue], [moved], [retried] = (
        points[f"rl.engine.{name}"] for name in ("queue.duration", "transferred", "prefill.retried")
    )
    assert (queue.sum, moved.value, retried.value) == (0.25, int(12.5 * 1024**2), 1)
    assert queue.attributes["server.port"] == call.attributes["server.port"]


def test_the_spread_of_a_time_is_that_of_the_requests_of_the_step(client, server, instrumented):
    with step(iteration=1):
        for queue in range(1, 22):
            server.raw = json.dumps({"text": "a", "meta_info": {**META_INFO, "queue_time": queue / 100}}).encode()
            post(client, f"{server.url}/generate", json={"text": "hi"})

    found = of_step(instrumented)
    spread = [found[name] for name in ("queue_time", "median.queue_time", "p95.queue_time", "max.queue_time")]
    assert spread == pytest.approx([0.11, 0.11, 0.2, 0.21])


def test_a_first_token_with_the_time_of_the_last_one_is_not_known(client, server, instrumented):
    meta = {**META_INFO, "first_token_latency": 0.5 - 1e-8, "decode_throughput": 2e8}
    server.raw = json.dumps({"text": "a", "meta_info": meta}).encode()
    with step(iteration=1):
        post(client, f"{server.url}/generate", json={"text": "hi"})

    found = of_step(instrumented)
    assert (found["queue_time"], found["request_time"]) == (0.25, 0.5)
    assert not found.keys() & {"time_to_first_token", "prefill_time", "decode_time", "decode_throughput"}


def test_several_samples_are_one_request_and_one_without_times_is_not_profiled(client, server, instrumented):
    with step(iteration=1):
        post(client, f"{server.url}/generate", json={"text": "hi", "sampling_params": {"n": 3}})
        server.raw = json.dumps({"text": "a", "meta_info": {"id": "1", "num_retractions": 2}}).encode()
        post(client, f"{server.url}/generate", json={"text": "hi"})

    found = of_step(instrumented)
    assert (found["requests"], found["profiled_requests"], found["samples"]) == (2, 1, 4)
    assert found["preemptions"] == 2
    assert found["queue_time"] == 0.25


def test_a_batch_of_trl_is_as_many_requests_as_prompts(client, server, instrumented):
    with step(iteration=1):
        post(client, f"{server.url}/generate/", json={"prompts": ["a", "b"], "n": 2})

    found = of_step(instrumented)
    assert (found["requests"], found["samples"], found["input_tokens"]) == (2, 4, 5)
    assert "cached_tokens" not in found, "the server of TRL does not say it"


@pytest.mark.parametrize(("client", "way"), COMMON)
def test_a_stream_counts_with_the_times_that_vllm_adds_to_its_usage(client, way, server, instrumented):
    server.chunks = CHAT_EVENTS
    with step(iteration=1):
        read_stream(client, way, f"{server.url}{CHAT}", {"model": "m", "stream": True}, lambda _: True)

    found = of_step(instrumented)
    # vLLM counts its first token from the scheduling on.
    assert (found["queue_time"], found["prefill_time"], found["decode_time"]) == (0.25, 0.375, 0.125)
    assert found["time_to_first_token"] == 0.625
    assert (found["truncated_samples"], found["cached_tokens"]) == (1, 4)


@pytest.mark.parametrize(("client", "way"), COMMON)
def test_a_stream_that_the_program_leaves_is_aborted(client, way, server, instrumented):
    server.chunks, server.sends = CHAT_EVENTS, threading.Semaphore(2)
    with step(iteration=1):
        read_stream(client, way, f"{server.url}{CHAT}", {"model": "m", "stream": True}, lambda _: False)
    server.sends.release(10)

    found = of_step(instrumented)
    assert (found["requests"], found["aborted_samples"]) == (1, 1)


def test_an_answer_that_was_read_in_full_and_dropped_is_not_aborted(client, server, instrumented):
    # Too long to be parsed once more.
    server.raw = json.dumps({"text": "a" * 300_000, "meta_info": META_INFO}).encode()
    with step(iteration=1):
        post(client, f"{server.url}/generate", read="text", json={"text": "hi"})
        gc.collect()
        record_abandoned()

    found = of_step(instrumented)
    assert (found["requests"], found["samples"], found["aborted_samples"]) == (1, 1, 0)
    assert not found.keys() & {"input_tokens", "output_tokens", "cached_tokens"}, "nobody knows them"


def test_tokens_that_one_answer_does_not_say_are_those_of_the_others(client, server, instrumented):
    with step(iteration=1):
        post(client, f"{server.url}/generate", json={"text": "hi"})
        server.raw = b'{"text": "a", "meta_info": {"id": "1"}}'
        post(client, f"{server.url}/generate", json={"text": "hi"})

    found = of_step(instrumented)
    assert (found["requests"], found["input_tokens"], found["output_tokens"]) == (2, 7, 3)


@pytest.mark.parametrize(("client", "way"), COMMON)
def test_a_stream_without_usage_has_no_tokens_and_not_none_of_them(client, way, server, instrumented):
    server.chunks = [event for event in CHAT_EVENTS if b'"usage"' not in event]
    with step(iteration=1):
        read_stream(client, way, f"{server.url}{CHAT}", {"model": "m", "stream": True}, lambda _: True)

    found = of_step(instrumented)
    assert found["requests"] == 1
    assert not found.keys() & {"input_tokens", "output_tokens"}


def test_what_the_engine_aborted_counts_as_that(client, server, instrumented):
    server.raw = json.dumps({"text": "", "meta_info": {**META_INFO, "finish_reason": {"type": "abort"}}}).encode()
    with step(iteration=1):
        post(client, f"{server.url}/generate", json={"text": "hi"})

    assert of_step(instrumented)["aborted_samples"] == 1


def test_a_refused_request_is_no_request_of_the_engine(client, server, instrumented):
    server.status = 503
    with step(iteration=1):
        post(client, f"{server.url}/generate", read="status", json={"text": "hi"})

    assert of_step(instrumented) == {}


@pytest.mark.parametrize(("error", "counted"), [(asyncio.CancelledError(), 1), (ConnectionError(), None)])
def test_a_call_that_the_program_cancels_is_aborted_and_one_that_fails_is_none(instrumented, error, counted):
    with step(iteration=1):
        add(Answer(), error, None, is_private=True)

    assert of_step(instrumented).get("aborted_samples") == counted


@pytest.mark.parametrize(
    ("fingerprint", "is_private", "counted"), [("vllm-0.32.0", False, 1), (None, True, 1), ("fp_1", False, None)]
)
def test_a_judge_on_a_public_host_is_no_engine_of_the_program(instrumented, fingerprint, is_private, counted):
    answer = Answer()
    answer.observe({"id": "1", "system_fingerprint": fingerprint, "choices": [], "usage": {"prompt_tokens": 1}})
    with step(iteration=1):
        add(answer, None, None, is_private=is_private)

    assert of_step(instrumented).get("requests") == counted


def test_a_call_of_the_openai_client_counts_where_its_answer_shows_an_engine(server, recorded, monkeypatch):
    openai = pytest.importorskip("openai")
    from otel_rl.instrumentors.openai import OpenAIInstrumentor

    server.raw = json.dumps(
        {
            "id": "1",
            "object": "text_completion",
            "created": 1,
            "model": "m",
            "system_fingerprint": "vllm-0.32.0",
            "choices": [{"index": 0, "text": "a", "finish_reason": "length", "logprobs": None}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
            "metrics": {"time_to_first_token_ms": 300.0, "queue_time_ms": 100.0, "generation_time_ms": 50.0},
        }
    ).encode()
    OpenAIInstrumentor().instrument(skip_dep_check=True)
    try:
        with step(iteration=1), openai.OpenAI(base_url=f"{server.url}/v1", api_key="k") as made:
            made.completions.create(model="m", prompt="hi")
    finally:
        OpenAIInstrumentor().uninstrument()

    found = SimpleNamespace(**of_step(recorded))
    assert (found.requests, found.profiled_requests, found.output_tokens) == (1, 1, 2)
    assert (found.queue_time, found.prefill_time) == (0.1, 0.3)
