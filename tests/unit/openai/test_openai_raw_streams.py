"""Answers that the program reads itself, line by line or as bytes: their calls have tokens, and it gets the same."""

from __future__ import annotations

import gc
from typing import Any

import openai
import pytest
from opentelemetry.trace import StatusCode
from support.fake_openai import CHUNKS

import otel_rl
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.instrumentors.openai import OpenAIInstrumentor
from otel_rl.training import trajectories

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
STREAM: dict[str, Any] = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
TOOL = {
    "index": 0,
    "delta": {
        "tool_calls": [
            {"index": 0, "id": "call-1", "type": "function", "function": {"name": "weather", "arguments": ""}}
        ]
    },
    "finish_reason": None,
}

#: How a program reads a response that it opened: the client's methods, and those of the response of httpx in it.
READS = {
    "iter_lines": lambda response: list(response.iter_lines()),
    "iter_text": lambda response: "".join(response.iter_text()),
    "iter_bytes": lambda response: b"".join(response.iter_bytes()),
    "iter_bytes by 7": lambda response: b"".join(response.iter_bytes(7)),
    "read": lambda response: response.read(),
    "http_response.iter_lines": lambda response: list(response.http_response.iter_lines()),
    "http_response.iter_raw": lambda response: b"".join(response.http_response.iter_raw()),
}


def _read(client, read, request):
    with client.chat.completions.with_streaming_response.create(**request) as response:
        return READS[read](response)


def _tokens(span):
    return span.attributes.get("gen_ai.usage.input_tokens"), span.attributes.get("gen_ai.usage.output_tokens")


@pytest.mark.parametrize("compresses", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("read", READS)
def test_an_answer_that_the_program_reads_itself_has_its_tokens(read, stream, compresses, recorded, server, client):
    server.compresses = compresses
    request = STREAM if stream else CHAT
    got = _read(client, read, request)
    span = recorded.span("chat tiny")
    assert _tokens(span) == (7, 3)
    assert span.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert span.attributes.get("rl.inference.stream.ended") == ("completed" if stream else None)
    assert ("gen_ai.response.time_to_first_chunk" in span.attributes) is stream
    OpenAIInstrumentor().uninstrument()
    assert got == _read(client, read, request)


async def test_lines_of_an_asynchronous_client_have_their_tokens(recorded, async_client):
    async with async_client.chat.completions.with_streaming_response.create(**STREAM) as response:
        lines = [line async for line in response.iter_lines()]
    assert lines[-2:] == ["data: [DONE]", ""]
    assert _tokens(recorded.span("chat tiny")) == (7, 3)


def test_events_of_a_response_have_their_tokens(recorded, client):
    if not hasattr(client, "responses"):
        pytest.skip("this version of openai has no responses")
    with client.responses.with_streaming_response.create(model="tiny", input="hi", stream=True) as response:
        assert list(response.iter_lines())
    assert _tokens(recorded.span("chat tiny")) == (5, 2)


def test_a_raw_response_whose_stream_is_read_below_it_has_its_tokens(recorded, client):
    raw = client.chat.completions.with_raw_response.create(**STREAM)
    assert list(raw.http_response.iter_lines())
    assert _tokens(recorded.span("chat tiny")) == (7, 3)


def test_the_program_may_keep_what_is_in_a_raw_response_alone(recorded, client):
    lines = client.chat.completions.with_raw_response.create(**STREAM).http_response.iter_lines()
    gc.collect()
    record_abandoned()
    assert recorded.spans == []
    assert list(lines)
    assert _tokens(recorded.span("chat tiny")) == (7, 3)


def test_lines_count_in_the_row_of_their_rollout(recorded, client):
    trajectories._forget()
    with otel_rl.rollout():
        _read(client, "iter_lines", STREAM)
    trajectories.record()
    (body,) = [record.body for record in recorded.events("rl.trajectories")]
    assert (body["rl.rollout.input_tokens"], body["rl.rollout.output_tokens"]) == ([7], [3])


def test_the_call_ends_with_the_last_event_and_not_with_the_response(recorded, client):
    with client.chat.completions.with_streaming_response.create(**STREAM) as response:
        for line in response.iter_lines():
            if line.endswith("[DONE]"):
                assert [span.name for span in recorded.spans] == ["chat tiny"]
                break
    assert recorded.span("chat tiny").attributes["rl.inference.stream.ended"] == "completed"


def test_lines_that_are_left_early_are_a_stream_that_was_closed(recorded, client):
    with client.chat.completions.with_streaming_response.create(**{**STREAM, "model": "stalling"}) as response:
        assert next(response.iter_lines()).startswith("data:")
    span = recorded.span("chat stalling")
    assert span.attributes["rl.inference.stream.ended"] == "closed"
    assert span.attributes["gen_ai.response.time_to_first_chunk"] > 0
    assert "gen_ai.response.finish_reasons" not in span.attributes


def test_an_error_among_the_lines_fails_the_call_and_raises_nothing(recorded, client):
    _read(client, "iter_lines", {**STREAM, "model": "breaking"})
    span = recorded.span("chat breaking")
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "stream_error")


def test_lines_that_are_no_json_are_the_programs(recorded, server, client):
    server.chunks = ["{broken", "[1", "null", '"text"']
    assert "data: {broken" in _read(client, "iter_lines", STREAM)
    assert recorded.span("chat tiny").attributes["rl.inference.stream.ended"] == "completed"


def test_a_tool_that_lines_ask_for_is_known(recorded, server, client):
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
    say = {"index": 0, "delta": {"content": "x"}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    server.chunks = [{**head, "choices": [choice]} for choice in (say, say, TOOL, say, say, say, end)]
    _read(client, "iter_lines", STREAM)
    assert recorded.span("chat tiny").attributes["rl.inference.tool_calls"] == ("weather",)


@pytest.mark.parametrize("raw", [True, False], ids=["raw response", "streaming response"])
def test_a_stream_that_the_client_makes_of_a_raw_response_counts_once(raw, recorded, client):
    completions = client.chat.completions
    if raw:
        chunks = list(completions.with_raw_response.create(**STREAM).parse())
    else:
        with completions.with_streaming_response.create(**STREAM) as response:
            stream = response.parse()
            assert type(stream) is openai.Stream
            chunks = list(stream)
    assert len(chunks) == CHUNKS + 3
    span = recorded.span("chat tiny")
    assert _tokens(span) == (7, 3)
    assert [span.name for span in recorded.spans] == ["chat tiny"]


def test_following_lines_does_not_keep_a_response_alive(recorded, client):
    raw = client.chat.completions.with_raw_response.create(**{**STREAM, "model": "stalling"})
    next(raw.http_response.iter_lines())
    gc.collect()
    assert recorded.spans == []
    del raw
    gc.collect()
    record_abandoned()
    assert recorded.span("chat stalling").attributes["rl.inference.stream.ended"] == "abandoned"
