"""Which server and engine answered: provider, engine, address, and series per server."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from support.fake_openai import VLLM

from otel_rl.inference import servers

MESSAGES: Any = [{"role": "user", "content": "hi"}]
CHAT: dict[str, Any] = {"model": "tiny", "messages": MESSAGES}
OPTIONS = {"stream_options": {"include_usage": True}}


def test_vllm_shows_in_engine_server_times_and_token_ids(recorded, server, client):
    server.extra = VLLM
    client.completions.create(model="tiny", prompt="x")
    found = recorded.span("text_completion tiny").attributes
    assert found["gen_ai.provider.name"] == "openai"
    assert found["rl.inference.engine"] == "vllm"
    assert found["rl.engine.queue_time"] == pytest.approx(0.002)
    assert found["rl.engine.prefill_time"] == pytest.approx(0.0125)
    assert found["rl.engine.decode_time"] == pytest.approx(0.25)
    assert found["rl.inference.token_ids.count"] == 2


def test_a_server_is_one_series_before_and_after_it_shows_its_engine(recorded, server, client):
    server.failures = 3
    with pytest.raises(openai.InternalServerError):
        client.completions.create(model="tiny", prompt="x")
    server.extra = VLLM
    client.completions.create(model="tiny", prompt="x")
    points = recorded.metrics()["gen_ai.client.operation.duration"]
    series = [{key: value for key, value in p.attributes.items() if key != "error.type"} for p in points]
    assert len(points) == 2
    assert series[0] == series[1]


def test_calls_of_one_server_are_measured_together_and_each_counts(recorded, client):
    for _ in range(40):
        client.chat.completions.create(**CHAT)
    list(client.chat.completions.create(**CHAT, **OPTIONS, stream=True))
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="missing", messages=MESSAGES)
    points = recorded.metrics()
    durations = {point.attributes.get("error.type"): point for point in points["gen_ai.client.operation.duration"]}
    assert durations[None].count == 41
    assert sum(durations[None].bucket_counts) == 41
    assert durations["openai.NotFoundError"].count == 1
    tokens = {
        point.attributes["gen_ai.token.type"]: (point.count, point.sum) for point in points["gen_ai.client.token.usage"]
    }
    assert tokens == {"input": (41, 41 * 7), "output": (41, 41 * 3)}
    (first,) = points["gen_ai.client.operation.time_to_first_chunk"]
    assert first.count == 1
    exemplars = {exemplar.span_id for exemplar in durations[None].exemplars}
    assert exemplars
    assert exemplars <= {span.context.span_id for span in recorded.spans}


def test_sglang_shows_in_engine_and_weight_version(recorded, server, client):
    server.extra = {"metadata": {"weight_version": "step-7", "weight_versions": ["step-7"]}}
    client.chat.completions.create(**CHAT)
    found = recorded.span("chat tiny").attributes
    assert found["rl.inference.engine"] == "sglang"
    assert found["rl.inference.weight_version"] == "step-7"


@pytest.mark.parametrize(
    ("base_url", "provider"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://mine.openai.azure.com/openai/v1", "azure.ai.openai"),
        ("https://mine.cognitiveservices.azure.us/openai/v1", "azure.ai.openai"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://api.x.ai/v1", "x_ai"),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "dashscope"),
        ("https://not-api.openai.com.example.org/v1", "openai"),
        ("http://10.0.0.5:8000/v1", "openai"),
    ],
)
def test_the_provider_is_known_from_the_address(base_url, provider):
    from otel_rl.instrumentors.openai.patch import _provider_of
    from otel_rl.instrumentors.stainless_requests import describe

    options = openai._models.FinalRequestOptions.construct(method="post", url="/chat/completions", json_data=dict(CHAT))
    request = describe(openai.OpenAI(api_key="none", base_url=base_url), options, _provider_of)
    assert request.labels["gen_ai.provider.name"] == provider


def test_an_azure_client_is_one_on_a_domain_of_the_users_own(recorded, server, instrumented):
    client = openai.AzureOpenAI(
        api_key="none", api_version="2024-10-21", azure_endpoint=server.base_url.removesuffix("/v1"), max_retries=0
    )
    with client, pytest.raises(openai.APIError):
        client.chat.completions.create(model="missing", messages=MESSAGES)
    assert recorded.span("chat missing").attributes["gen_ai.provider.name"] == "azure.ai.openai"


def test_servers_beyond_the_budget_are_one_series_and_keep_their_address_on_the_span(recorded, server, instrumented):
    for number in range(servers.MAXIMUM_SERVERS):
        servers.server("10.0.0.1", number)
    with openai.OpenAI(api_key="none", base_url=server.base_url) as client:
        client.chat.completions.create(**CHAT)
    found = recorded.span("chat tiny").attributes
    assert (found["server.address"], found["server.port"]) == ("127.0.0.1", server.server_port)
    points = recorded.metrics()
    (point,) = points["gen_ai.client.operation.duration"]
    assert point.attributes["server.address"] == "_OTHER"
    assert "server.port" not in point.attributes


def test_an_absolute_url_is_recorded_with_its_own_host(recorded, server, instrumented):
    import openai

    with openai.OpenAI(api_key="none", base_url="http://elsewhere.invalid:1/v1") as client:
        client.post(f"{server.base_url}/chat/completions", body=CHAT, cast_to=object)
    (span,) = recorded.spans
    assert span.attributes["server.address"] == "127.0.0.1"
    assert span.attributes["server.port"] == int(server.base_url.rpartition(":")[2].partition("/")[0])


LOGPROBS = {"content": [{"token": "a", "logprob": -0.5, "bytes": None, "top_logprobs": []}] * 3, "refusal": None}
TEXT_LOGPROBS = {"text_offset": [0, 1], "token_logprobs": [-0.5, -1.0], "tokens": ["a", "b"], "top_logprobs": None}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("form", "expected"), [("chat", 3), ("completions", 2)])
def test_log_probabilities_of_the_answer_are_counted(form, expected, streamed, recorded, server, client):
    said = {"role": "assistant", "content": "a"}
    choice = {"index": 0, "finish_reason": "stop", "delta" if streamed else "message": said, "logprobs": LOGPROBS}
    if form == "completions":
        choice = {"index": 0, "finish_reason": "stop", "text": "a", "logprobs": TEXT_LOGPROBS}
    server.extra = {"choices": [choice]}
    server.chunks = [{"id": "c", "object": "chunk", "created": 1, "model": "m", "choices": [choice]}] * 2
    if form == "chat":
        messages = [{"role": "user", "content": "hi"}]
        answer = client.chat.completions.create(model="tiny", messages=messages, logprobs=True, stream=streamed)
    else:
        answer = client.completions.create(model="tiny", prompt="x", logprobs=1, stream=streamed)
    if streamed:
        expected *= len(list(answer))
    [span] = recorded.spans
    assert span.attributes["rl.inference.logprobs.count"] == expected
