"""Every way to call a model gives one span, its metrics, and the trace context on the wire."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from pydantic import BaseModel

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


def test_other_requests_give_no_span(recorded, server, client):
    with pytest.raises(openai.APIStatusError):
        client.models.list()
    assert recorded.spans == []


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
