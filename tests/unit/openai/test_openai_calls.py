"""Every way to call a model gives one span, its metrics, and the trace context on the wire."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import SpanKind, StatusCode
from pydantic import BaseModel
from support.fake_openai import VLLM

from otel_rl.inference import servers
from otel_rl.semconv import attributes
from otel_rl.telemetry import cardinality_budgets

MESSAGES: Any = [{"role": "user", "content": "planted prompt"}]
CHAT: dict[str, Any] = {"model": "tiny", "messages": MESSAGES}
OPTIONS = {"stream_options": {"include_usage": True}}


class Answer(BaseModel):
    x: int


def _chat_stream_helper(client):
    completions = client.chat.completions
    completions = completions if hasattr(completions, "stream") else client.beta.chat.completions
    with completions.stream(**CHAT, **OPTIONS) as stream:
        return stream.get_final_completion()


def _responses_stream_helper(client):
    with client.responses.stream(model="tiny", input="hi") as stream:
        return stream.get_final_response()


def _streaming_response(client):
    with client.chat.completions.with_streaming_response.create(**CHAT) as response:
        return response.parse()


def _streaming_response_stream(client):
    with client.chat.completions.with_streaming_response.create(**CHAT, **OPTIONS, stream=True) as response:
        return list(response.parse())


def _parse(client):
    completions = client.chat.completions
    return (completions if hasattr(completions, "parse") else client.beta.chat.completions).parse(
        **CHAT, response_format=Answer
    )


#: name -> (call, span name, input tokens, output tokens, streamed)
SHAPES = {
    "chat": (lambda c: c.chat.completions.create(**CHAT), "chat tiny", 7, 3, False),
    "chat stream": (lambda c: list(c.chat.completions.create(**CHAT, **OPTIONS, stream=True)), "chat tiny", 7, 3, True),
    "chat parse": (_parse, "chat tiny", 7, 3, False),
    "chat stream helper": (_chat_stream_helper, "chat tiny", 7, 3, True),
    "chat raw": (lambda c: c.chat.completions.with_raw_response.create(**CHAT).parse(), "chat tiny", 7, 3, False),
    "chat raw stream": (
        lambda c: list(c.chat.completions.with_raw_response.create(**CHAT, **OPTIONS, stream=True).parse()),
        "chat tiny",
        7,
        3,
        True,
    ),
    "chat streaming response": (_streaming_response, "chat tiny", 7, 3, False),
    "chat streaming response stream": (_streaming_response_stream, "chat tiny", 7, 3, True),
    "completions": (lambda c: c.completions.create(model="tiny", prompt="x"), "text_completion tiny", 7, 2, False),
    "completions stream": (
        lambda c: list(c.completions.create(model="tiny", prompt="x", stream=True)),
        "text_completion tiny",
        7,
        2,
        True,
    ),
    "embeddings": (lambda c: c.embeddings.create(model="tiny", input="x"), "embeddings tiny", 2, None, False),
    "responses": (lambda c: c.responses.create(model="tiny", input="x"), "chat tiny", 5, 2, False),
    "responses stream": (
        lambda c: list(c.responses.create(model="tiny", input="x", stream=True)),
        "chat tiny",
        5,
        2,
        True,
    ),
    "responses stream helper": (_responses_stream_helper, "chat tiny", 5, 2, True),
    "raw post": (
        lambda c: c.post("/completions", body={"model": "tiny", "prompt": "x"}, cast_to=object),
        "text_completion tiny",
        7,
        2,
        False,
    ),
}
ASYNC_SHAPES = {
    "chat": (lambda c: c.chat.completions.create(**CHAT), "chat tiny", 7, 3, False),
    "chat stream": (lambda c: c.chat.completions.create(**CHAT, **OPTIONS, stream=True), "chat tiny", 7, 3, True),
    "chat raw": (lambda c: c.chat.completions.with_raw_response.create(**CHAT), "chat tiny", 7, 3, False),
    "completions": (lambda c: c.completions.create(model="tiny", prompt="x"), "text_completion tiny", 7, 2, False),
    "embeddings": (lambda c: c.embeddings.create(model="tiny", input="x"), "embeddings tiny", 2, None, False),
    "responses": (lambda c: c.responses.create(model="tiny", input="x"), "chat tiny", 5, 2, False),
    "responses stream": (lambda c: c.responses.create(model="tiny", input="x", stream=True), "chat tiny", 5, 2, True),
    "raw post": (
        lambda c: c.post("/completions", body={"model": "tiny", "prompt": "x"}, cast_to=object),
        "text_completion tiny",
        7,
        2,
        False,
    ),
}


def _skip_if_missing(name, client):
    needed = {"responses": client, "chat parse": client.beta, "chat stream helper": client.beta}
    attributes = {"responses": "responses", "chat parse": "chat", "chat stream helper": "chat"}
    for shape, owner in needed.items():
        if name.startswith(shape) and not hasattr(owner, attributes[shape]):
            pytest.skip(f"this version of openai has no {shape}")


def _expect_call(recorded, server, name, inputs, outputs, streamed):
    span = recorded.span(name)
    assert len(recorded.spans) == 1
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET
    found = dict(span.attributes)
    assert found["gen_ai.request.model"] == "tiny"
    assert found["gen_ai.provider.name"] == "openai"
    assert (found["server.address"], found["server.port"]) == ("127.0.0.1", server.server_port)
    assert found["gen_ai.usage.input_tokens"] == inputs
    assert found.get("gen_ai.usage.output_tokens") == outputs
    assert found["rl.inference.retries"] == 0
    assert found.get("rl.inference.stream.ended") == ("completed" if streamed else None)
    assert ("gen_ai.response.time_to_first_chunk" in found) == streamed
    assert not [key for key, value in found.items() if "planted" in str(value)]
    points = recorded.metrics()
    durations = points["gen_ai.client.operation.duration"]
    assert [point.count for point in durations] == [1]
    assert dict(durations[0].attributes) == {
        "gen_ai.operation.name": found["gen_ai.operation.name"],
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny",
        "server.address": "127.0.0.1",
        "server.port": server.server_port,
    }
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]}
    assert tokens == {"input": inputs, **({} if outputs is None else {"output": outputs})}
    assert ("gen_ai.client.operation.time_to_first_chunk" in points) == streamed
    _, headers, _ = server.requests[0]
    trace_id, span_id = headers["traceparent"].split("-")[1:3]
    assert (int(trace_id, 16), int(span_id, 16)) == (span.context.trace_id, span.context.span_id)
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_gives_one_span_with_tokens_and_metrics(shape, recorded, server, client):
    call, name, inputs, outputs, streamed = SHAPES[shape]
    _skip_if_missing(shape, client)
    call(client)
    found = _expect_call(recorded, server, name, inputs, outputs, streamed)
    if not name.startswith("embeddings"):
        assert found["gen_ai.response.finish_reasons"] == (("stop",) if name.startswith("chat") else ("length",))
        assert found["gen_ai.response.model"] == "tiny-served"
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.parametrize("shape", ASYNC_SHAPES)
async def test_an_async_call_gives_one_span_with_tokens_and_metrics(shape, recorded, server, async_client):
    call, name, inputs, outputs, streamed = ASYNC_SHAPES[shape]
    _skip_if_missing(shape, async_client)
    answer = await call(async_client)
    if shape == "chat raw":
        answer.parse()
    if streamed:
        assert isinstance(answer, openai.AsyncStream)
        assert [chunk async for chunk in answer]
    _expect_call(recorded, server, name, inputs, outputs, streamed)


def test_cached_and_reasoning_tokens_are_on_the_span(recorded, client):
    client.chat.completions.create(**CHAT)
    found = recorded.span("chat tiny").attributes
    assert found["gen_ai.usage.cache_read.input_tokens"] == 4
    assert found["gen_ai.usage.reasoning.output_tokens"] == 1


def test_parameters_of_the_request_are_on_the_span(recorded, client):
    client.chat.completions.create(
        **CHAT, max_tokens=8, temperature=0.5, top_p=0.9, seed=3, n=2, response_format={"type": "json_object"}
    )
    found = recorded.span("chat tiny").attributes
    assert found["gen_ai.request.max_tokens"] == 8
    assert found["gen_ai.request.temperature"] == 0.5
    assert found["gen_ai.request.top_p"] == 0.9
    assert found["gen_ai.request.seed"] == 3
    assert found["gen_ai.request.choice.count"] == 2
    assert found["gen_ai.output.type"] == "json"


def test_stop_sequences_penalties_and_what_extra_body_adds_are_on_the_span(recorded, server, client):
    client.chat.completions.create(
        **CHAT,
        stop="</answer>",
        presence_penalty=0.25,
        frequency_penalty=0.5,
        extra_body={"top_k": 5, "max_tokens": 7, "n": 4, "stream": False},
    )
    found = recorded.span("chat tiny").attributes
    assert found["gen_ai.request.stop_sequences"] == ("</answer>",)
    assert found["gen_ai.request.presence_penalty"] == 0.25
    assert found["gen_ai.request.frequency_penalty"] == 0.5
    assert found["gen_ai.request.top_k"] == 5
    assert found["gen_ai.request.max_tokens"] == 7
    assert found["gen_ai.request.choice.count"] == 4
    assert server.requests[0][2]["top_k"] == 5


@pytest.mark.parametrize(
    "body",
    [
        {"stop": {"a": 1}},
        {"stop": [1, 2]},
        {"stop": 7},
        {"temperature": "hot", "n": "two", "max_tokens": None},
        {"response_format": "json", "model": 7},
        {"text": "x"},
    ],
    ids=str,
)
def test_parameters_of_another_type_are_sent_and_not_recorded(body, recorded, server, client):
    client.post("/completions", body={"prompt": "x", **body}, cast_to=object)
    assert server.requests[0][2] == {"prompt": "x", **body}
    (span,) = recorded.spans
    assert {key for key in span.attributes if key.startswith("gen_ai.request.")} == set()


def test_the_request_body_is_sent_as_the_program_wrote_it(server, client):
    list(client.chat.completions.create(**CHAT, stream=True, extra_body={"return_token_ids": True}))
    _, _, body = server.requests[0]
    assert body == {**CHAT, "stream": True, "return_token_ids": True}


def test_vllm_shows_in_engine_server_times_and_token_ids(recorded, server, client):
    server.extra = VLLM
    client.completions.create(model="tiny", prompt="x")
    found = recorded.span("text_completion tiny").attributes
    assert found["gen_ai.provider.name"] == "openai"
    assert found["rl.inference.engine"] == "vllm"
    assert found["rl.inference.server.queue_time"] == pytest.approx(0.002)
    assert found["rl.inference.server.time_to_first_token"] == pytest.approx(0.0125)
    assert found["rl.inference.server.generation_time"] == pytest.approx(0.25)
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
        ("https://not-api.openai.com.example.org/v1", "openai"),
        ("http://10.0.0.5:8000/v1", "openai"),
    ],
)
def test_the_provider_is_known_from_the_address(base_url, provider):
    from otel_rl.instrumentors.openai.request import describe

    options = openai._models.FinalRequestOptions.construct(method="post", url="/chat/completions", json_data=dict(CHAT))
    request = describe(openai.OpenAI(api_key="none", base_url=base_url), options)
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


@pytest.mark.parametrize(
    ("model", "expected"),
    [("/mnt/checkpoints/step-100", "step-100"), ("./out/", "out"), ("org/name", "org/name"), ("tiny", "tiny")],
)
def test_a_local_path_does_not_become_a_model_name(model, expected, recorded, client):
    client.chat.completions.create(model=model, messages=MESSAGES)
    assert recorded.span(f"chat {expected}").attributes["gen_ai.request.model"] == expected


def test_a_model_beyond_the_budget_has_its_name_on_the_span_and_not_on_the_metrics(recorded, client, monkeypatch):
    monkeypatch.setattr(cardinality_budgets, "_seen", {})
    monkeypatch.setattr(attributes, "CARDINALITY", {attributes.GEN_AI_REQUEST_MODEL: 2})
    for model in ("step-1", "step-2"):
        client.chat.completions.create(model=model, messages=MESSAGES)
    assert recorded.span("chat step-2").attributes["gen_ai.request.model"] == "step-2"
    points = recorded.metrics()["gen_ai.client.operation.duration"]
    assert {point.attributes["gen_ai.request.model"] for point in points} == {"step-1", "_OTHER"}


def test_retries_are_one_span_with_their_number(recorded, server, client):
    server.failures = 2
    client.chat.completions.create(**CHAT)
    assert recorded.span("chat tiny").attributes["rl.inference.retries"] == 2
    assert len({headers["traceparent"] for _, headers, _ in server.requests}) == 1


def test_an_error_answer_is_an_error_span_and_the_same_exception(recorded, client):
    with pytest.raises(openai.NotFoundError) as raised:
        client.chat.completions.create(model="missing", messages=MESSAGES)
    span = recorded.span("chat missing")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "openai.NotFoundError"
    assert not span.events
    assert type(raised.value) is openai.NotFoundError
    (point,) = recorded.metrics()["gen_ai.client.operation.duration"]
    assert point.attributes["error.type"] == "openai.NotFoundError"


def test_the_usage_of_an_answer_that_does_not_parse_is_kept(recorded, server, client):
    server.extra = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": '{"x":'}, "finish_reason": "length"}]
    }
    _skip_if_missing("chat parse", client)
    with pytest.raises(openai.LengthFinishReasonError) as raised:
        _parse(client)
    found = recorded.span("chat tiny").attributes
    assert found["error.type"] == "openai.LengthFinishReasonError"
    if hasattr(raised.value, "completion"):  # older versions do not hand the answer over
        assert found["gen_ai.usage.output_tokens"] == 3


async def test_a_cancelled_call_ends_its_span(recorded, server, async_client):
    task = asyncio.create_task(async_client.chat.completions.create(model="slow", messages=MESSAGES))
    await asyncio.to_thread(server.wait_for_slow_request)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    span = recorded.span("chat slow")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "asyncio.exceptions.CancelledError"


def test_baggage_and_the_callers_trace_are_on_the_wire(recorded, server, client):
    tracer = recorded.tracer_provider.get_tracer("program")
    token = context.attach(baggage.set_baggage("rl.rollout.id", "r-1"))
    try:
        with tracer.start_as_current_span("rollout"):
            client.chat.completions.create(**CHAT)
    finally:
        context.detach(token)
    _, headers, _ = server.requests[0]
    assert headers["baggage"] == "rl.rollout.id=r-1"
    call = recorded.span("chat tiny")
    assert call.parent.span_id == recorded.span("rollout").context.span_id
    assert call.attributes["rl.rollout.id"] == "r-1"


@pytest.mark.parametrize(("url", "expected"), [("/chat/completions", True), ("https://api.example.com/v1/chat", False)])
def test_the_programs_baggage_stays_and_ours_goes_by_the_host_of_the_request(recorded, client, url, expected):
    from openai._models import FinalRequestOptions

    entries = baggage.set_baggage("customer", "secret", baggage.set_baggage("rl.rollout.id", "r-1"))
    token = context.attach(entries)
    try:
        with recorded.tracer_provider.get_tracer("program").start_as_current_span("rollout"):
            request = client._build_request(FinalRequestOptions(method="post", url=url, json_data={}))
    finally:
        context.detach(token)
    assert request.headers.get("baggage") == ("rl.rollout.id=r-1" if expected else None)
    assert "traceparent" in request.headers


def test_a_traceparent_that_the_program_sets_is_kept(server, client):
    mine = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client.chat.completions.create(**CHAT, extra_headers={"traceparent": mine})
    assert server.requests[0][1]["traceparent"] == mine


async def test_parallel_calls_keep_their_parents(recorded, async_client):
    tracer = recorded.tracer_provider.get_tracer("program")

    async def rollout(number):
        with tracer.start_as_current_span(f"rollout {number}"):
            await async_client.chat.completions.create(**CHAT)

    await asyncio.gather(*(rollout(number) for number in range(5)))
    parents = {span.context.span_id for span in recorded.spans if span.name.startswith("rollout")}
    calls = [span for span in recorded.spans if span.name == "chat tiny"]
    assert len(calls) == 5
    assert {span.parent.span_id for span in calls} == parents


def test_other_requests_give_no_span(recorded, server, client):
    with pytest.raises(openai.APIStatusError):
        client.models.list()
    assert recorded.spans == []


def test_suppressed_instrumentation_records_and_sends_nothing(recorded, server, client):
    from opentelemetry.instrumentation.utils import suppress_instrumentation

    tracer = recorded.tracer_provider.get_tracer("program")
    with tracer.start_as_current_span("program"), suppress_instrumentation():
        client.chat.completions.create(**CHAT)
    assert [span.name for span in recorded.spans] == ["program"]
    assert "traceparent" not in server.requests[0][1]


def test_content_is_recorded_only_when_the_user_says_so(recorded, client, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    client.chat.completions.create(**CHAT)
    list(client.chat.completions.create(**CHAT, stream=True))
    plain, streamed = recorded.spans
    for span in (plain, streamed):
        assert span.attributes["gen_ai.input.messages"] == (
            '[{"role": "user", "parts": [{"type": "text", "content": "planted prompt"}]}]'
        )
    assert "word0 word1 " in streamed.attributes["gen_ai.output.messages"]
    assert '{\\"x\\": 1}' in plain.attributes["gen_ai.output.messages"]


def test_an_absolute_url_is_recorded_with_its_own_host(recorded, server, instrumented):
    import openai

    with openai.OpenAI(api_key="none", base_url="http://elsewhere.invalid:1/v1") as client:
        client.post(f"{server.base_url}/chat/completions", body=CHAT, cast_to=object)
    (span,) = recorded.spans
    assert span.attributes["server.address"] == "127.0.0.1"
    assert span.attributes["server.port"] == int(server.base_url.rpartition(":")[2].partition("/")[0])
