"""Further forms of a call: lists of prompts, several choices, helpers of the asynchronous client, batches."""

from __future__ import annotations

import asyncio
from importlib.metadata import entry_points
from typing import Any

import openai
import pytest
from opentelemetry.trace import StatusCode
from pydantic import BaseModel

MESSAGES: Any = [{"role": "user", "content": "hi"}]
CHAT: dict[str, Any] = {"model": "tiny", "messages": MESSAGES}
USAGE = {"stream_options": {"include_usage": True}}
#: Two prompts with two samples each, in the order of the protocol.
FOUR = [{"index": number, "text": "x", "finish_reason": "stop" if number % 2 else "length"} for number in range(4)]


class Answer(BaseModel):
    x: int


def _expect_one(recorded, server, name):
    [span] = recorded.spans
    assert span.name == name
    assert span.status.status_code is StatusCode.UNSET
    [(_, headers, _)] = server.requests
    assert headers["traceparent"].split("-")[2] == f"{span.context.span_id:016x}"
    [duration] = recorded.metrics()["gen_ai.client.operation.duration"]
    assert duration.count == 1
    return span.attributes


@pytest.mark.parametrize("prompts", [["a", "b"], [[1, 2], [3]]], ids=["text", "tokens"])
def test_prompts_in_a_list_with_several_samples_are_one_call(prompts, recorded, server, client):
    server.extra = {"choices": FOUR, "usage": {"prompt_tokens": 4, "completion_tokens": 40, "total_tokens": 44}}
    assert len(client.completions.create(model="tiny", prompt=prompts, n=2).choices) == 4
    found = _expect_one(recorded, server, "text_completion tiny")
    assert found["gen_ai.request.choice.count"] == 2
    assert found["gen_ai.response.finish_reasons"] == ("length", "stop", "length", "stop")
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (4, 40)


@pytest.mark.parametrize(
    ("prompt", "requests"),
    [("a", 1), ([1, 2, 3], 1), (["a", "b"], 2), ([[1], [2], [3]], 3), ([], 1), (None, 1), ([None], 1)],
)
def test_each_prompt_of_a_list_is_a_request_in_the_summary_of_the_step(prompt, requests, recorded, server, client):
    import otel_rl

    with otel_rl.step(1):
        client.post("/completions", body={"model": "tiny", "prompt": prompt}, cast_to=object)
    assert recorded.span("rl.rank.step").attributes["rl.engine.requests"] == requests


def test_streamed_prompts_in_a_list_have_the_reasons_of_all_choices(recorded, server, client):
    head = {"id": "c", "object": "text_completion", "created": 1, "model": "tiny"}
    server.chunks = [{**head, "choices": [choice]} for choice in FOUR]
    assert len(list(client.completions.create(model="tiny", prompt=["a", "b"], n=2, stream=True))) == 4
    found = _expect_one(recorded, server, "text_completion tiny")
    assert found["gen_ai.response.finish_reasons"] == ("length", "stop", "length", "stop")


def test_several_choices_of_a_chat_are_one_call(recorded, server, client):
    message = {"role": "assistant", "content": "x"}
    reasons = ("stop", "length", "tool_calls")
    server.extra = {
        "choices": [{"index": n, "message": message, "finish_reason": reason} for n, reason in enumerate(reasons)]
    }
    assert len(client.chat.completions.create(**CHAT, n=3).choices) == 3
    found = _expect_one(recorded, server, "chat tiny")
    assert found["gen_ai.request.choice.count"] == 3
    assert found["gen_ai.response.finish_reasons"] == reasons


@pytest.mark.parametrize("given", [["a", "b"], [1, 2], [[1, 2], [3]]], ids=["texts", "tokens", "lists of tokens"])
def test_inputs_of_an_embedding_in_a_list_are_one_call(given, recorded, server, client):
    data = [{"object": "embedding", "index": number, "embedding": [0.1]} for number in range(2)]
    server.extra = {"data": data, "usage": {"prompt_tokens": 5, "total_tokens": 5}}
    assert len(client.embeddings.create(model="tiny", input=given, encoding_format="float").data) == 2
    assert _expect_one(recorded, server, "embeddings tiny")["gen_ai.usage.input_tokens"] == 5


def _completions_with(helper, client):
    for chat in (client.chat, getattr(client.beta, "chat", None)):
        if hasattr(getattr(chat, "completions", None), helper):
            return chat.completions
    pytest.skip("this version has no such helper")


async def test_parse_of_the_asynchronous_client_is_one_call(recorded, server, async_client):
    completions = _completions_with("parse", async_client)
    answer = await completions.parse(**CHAT, response_format=Answer)
    assert answer.choices[0].message.parsed == Answer(x=1)
    assert _expect_one(recorded, server, "chat tiny")["gen_ai.usage.output_tokens"] == 3


async def test_a_helpers_stream_that_is_read_to_its_end_is_one_call(recorded, server, async_client):
    completions = _completions_with("stream", async_client)
    async with completions.stream(**CHAT, **USAGE) as stream:
        assert [event async for event in stream]
        assert (await stream.get_final_completion()).choices[0].finish_reason == "stop"
    found = _expect_one(recorded, server, "chat tiny")
    assert found["rl.inference.stream.ended"] == "completed"
    assert found["gen_ai.usage.output_tokens"] == 3


async def test_a_responses_stream_that_is_read_to_its_end_is_one_call(recorded, server, async_client):
    if not hasattr(getattr(async_client, "responses", None), "stream"):
        pytest.skip("this version has no such helper")
    async with async_client.responses.stream(model="tiny", input="hi") as stream:
        assert [event async for event in stream]
        assert (await stream.get_final_response()).status == "completed"
    assert _expect_one(recorded, server, "chat tiny")["rl.inference.stream.ended"] == "completed"


async def test_a_streamed_text_completion_of_the_asynchronous_client_is_one_call(recorded, server, async_client):
    stream = await async_client.completions.create(model="tiny", prompt="x", stream=True)
    assert len([chunk async for chunk in stream]) == 2
    found = _expect_one(recorded, server, "text_completion tiny")
    assert found["rl.inference.stream.ended"] == "completed"
    assert found["gen_ai.usage.output_tokens"] == 2


BATCH = {
    "id": "batch_1",
    "object": "batch",
    "endpoint": "/v1/chat/completions",
    "input_file_id": "file-1",
    "completion_window": "24h",
    "status": "validating",
    "created_at": 1,
}


def test_a_batch_job_is_no_model_call(recorded, server, client):
    server.body = BATCH
    made = client.batches.create(input_file_id="file-1", endpoint="/v1/chat/completions", completion_window="24h")
    assert made.id == client.batches.cancel("batch_1").id == "batch_1"
    assert [path for path, _, _ in server.requests] == ["/v1/batches", "/v1/batches/batch_1/cancel"]
    assert recorded.spans == []
    assert "gen_ai.client.operation.duration" not in recorded.metrics()


# -- over aiohttp ------------------------------------------------------------------------------------------------------


@pytest.fixture
def over_aiohttp(server, instrumented):
    """Makes a client whose transport is aiohttp, with our instrumentors of all that lies below it."""
    pytest.importorskip("aiohttp")
    if int(openai.__version__.partition(".")[0]) < 3:
        pytest.importorskip(
            "httpx_aiohttp", reason="before openai 3 its transport over aiohttp is a package of its own"
        )
    # Called `DefaultAioHttpxClient` before openai 3, where it needs the package httpx-aiohttp.
    kind = getattr(openai, "DefaultAioHttpClient", None) or getattr(openai, "DefaultAioHttpxClient", None)
    if kind is None or "Missing" in kind.__name__:
        pytest.skip("this version has no transport over aiohttp, or lacks its package")
    group = entry_points(group="opentelemetry_instrumentor")
    below = {"otel_rl_aiohttp", "otel_rl_httpx", "otel_rl_httpx2"}
    made = [one.load()() for one in group if one.name in below]
    for one in made:
        one.instrument(skip_dep_check=True)
    settings = {"api_key": "none", "base_url": server.base_url, "max_retries": 2}
    yield lambda: openai.AsyncOpenAI(**settings, http_client=kind())
    for one in made:
        one.uninstrument()


async def test_a_call_over_aiohttp_is_one_call(recorded, server, over_aiohttp):
    async with over_aiohttp() as client:
        assert type(await client.chat.completions.create(**CHAT)).__name__ == "ChatCompletion"
    assert _expect_one(recorded, server, "chat tiny")["gen_ai.usage.output_tokens"] == 3
    assert sum(name == "traceparent" for name, _ in server.header_lines[0]) == 1


async def test_a_stream_over_aiohttp_is_one_call(recorded, server, over_aiohttp):
    async with over_aiohttp() as client:
        stream = await client.chat.completions.create(**CHAT, **USAGE, stream=True)
        assert recorded.spans == []
        assert [chunk async for chunk in stream]
    found = _expect_one(recorded, server, "chat tiny")
    assert found["rl.inference.stream.ended"] == "completed"
    assert found["gen_ai.usage.output_tokens"] == 3


async def test_retries_and_parallel_calls_over_aiohttp_are_told_apart(recorded, server, over_aiohttp):
    server.failures = 2
    async with over_aiohttp() as client:
        await client.chat.completions.create(**CHAT)
        await asyncio.gather(*(client.chat.completions.create(**CHAT) for _ in range(5)))
    first, *others = recorded.spans
    assert first.attributes["rl.inference.retries"] == 2
    assert len(others) == 5
    assert {span.attributes["rl.inference.retries"] for span in others} == {0}
    assert {lines["traceparent"].split("-")[2] for _, lines, _ in server.requests} == {
        f"{span.context.span_id:016x}" for span in recorded.spans
    }


async def test_a_cancelled_call_over_aiohttp_ends_its_span(recorded, server, over_aiohttp):
    async with over_aiohttp() as client:
        task = asyncio.create_task(client.chat.completions.create(model="slow", messages=MESSAGES))
        await asyncio.to_thread(server.wait_for_slow_request)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    [span] = recorded.spans
    assert span.attributes["error.type"] == "asyncio.exceptions.CancelledError"


async def test_a_post_with_the_http_client_itself_over_aiohttp_is_one_call(recorded, server, over_aiohttp):
    async with over_aiohttp() as client:
        http = client._client
        answer = await http.post(f"{server.base_url}/completions", json={"model": "tiny", "prompt": "x"})
        assert answer.json()["id"] == "cmpl-1"
    found = _expect_one(recorded, server, "text_completion tiny")
    assert found["gen_ai.usage.output_tokens"] == 2
