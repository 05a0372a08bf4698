"""Model calls of the client of Model Studio: one span each, whatever class makes it and however it ends."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
from contextlib import nullcontext
from http import HTTPStatus
from typing import Any

import dashscope
import pytest
from dashscope.api_entities.aio_session import get_shared_aio_session
from dashscope.client.base_api import BaseApi
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from support.fake_dashscope import HANG, PIECES, USAGE, WHOLE, answer, choice

import otel_rl
from otel_rl.inference.dropped_answers import record_abandoned

MESSAGES = [{"role": "user", "content": "2+2?"}]
CHAT: dict[str, Any] = {"model": "qwen-plus", "messages": MESSAGES, "result_format": "message"}
pytestmark = pytest.mark.usefixtures("instrumented")


async def a_call(**given):
    found = await dashscope.AioGeneration.call(**given)
    found = [chunk async for chunk in found] if given.get("stream") else found
    await (await get_shared_aio_session()).close()
    return found


def call(is_async, **given):
    if is_async:
        return asyncio.run(a_call(**given))
    found = dashscope.Generation.call(**given)
    return list(found) if given.get("stream") else found


BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@BOTH
def test_a_call_is_one_span_with_tokens_reason_and_server(recorded, server, is_async):
    server.answers.append((200, answer(choice("4"))))
    found = call(is_async, **CHAT, temperature=0.5, max_tokens=9)
    assert found.status_code == HTTPStatus.OK
    assert found.output.choices[0].message.content == "4"
    span = recorded.span("chat qwen-plus")
    assert span.kind is trace.SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "dashscope",
        "gen_ai.request.model": "qwen-plus",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.response.id": "request-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "server.address": "127.0.0.1",
        "server.port": server.server_address[1],
    }
    assert {name: span.attributes.get(name) for name in expected} == expected
    assert not [name for name in span.attributes if "messages" in name]
    _, headers, _ = server.requests[0]
    assert headers["traceparent"].split("-")[2] == f"{span.context.span_id:016x}"
    points = recorded.metrics()
    assert len(points["gen_ai.client.operation.duration"]) == 1
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]}
    assert tokens == {"input": 11, "output": 7}


@pytest.mark.parametrize("captures", [False, True])
def test_the_form_with_a_text_has_reason_and_tokens_too(recorded, server, request, captures):
    if captures:
        request.getfixturevalue("content")
    server.answers.append((200, {**answer(), "output": {"text": "4", "finish_reason": "length"}}))
    dashscope.Generation.call(model="qwen-plus", prompt="2+2?")
    values = recorded.span("chat qwen-plus").attributes
    assert values["gen_ai.response.finish_reasons"] == ("length",)
    assert values["gen_ai.usage.output_tokens"] == USAGE["output_tokens"]
    assert ("gen_ai.output.messages" in values) is captures
    if captures:
        assert json.loads(values["gen_ai.input.messages"])[0]["parts"] == [{"type": "text", "content": "2+2?"}]
        assert json.loads(values["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "4"}]


@pytest.mark.shape("stream")
@BOTH
@pytest.mark.parametrize("captures", [False, True])
@pytest.mark.parametrize(
    ("chunks", "how"),
    [
        (PIECES, {"incremental_output": True}),
        # The client itself puts the pieces together then.
        (PIECES, {"incremental_output": False}),
        (WHOLE, {}),
        (PIECES, {}),
    ],
    ids=["incremental", "merged", "whole by default", "incremental by default"],
)
def test_a_stream_ends_with_its_last_reason_and_usage(recorded, server, request, is_async, captures, chunks, how):
    if captures:
        request.getfixturevalue("content")
    server.answers.append((200, chunks))
    found = call(is_async, **CHAT, stream=True, **how)
    assert len(found) == len(chunks)
    span = recorded.span("chat qwen-plus")
    assert span.attributes["rl.inference.stream.ended"] == "completed"
    assert span.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert span.attributes["gen_ai.usage.output_tokens"] == 7
    assert span.attributes["gen_ai.response.time_to_first_chunk"] > 0
    assert ("gen_ai.output.messages" in span.attributes) is captures
    if captures:
        [message] = json.loads(span.attributes["gen_ai.output.messages"])
        assert message["parts"] == [{"type": "text", "content": "Hello you"}]


def test_a_stream_stays_lazy_and_a_generator(recorded, server):
    stream = dashscope.Generation.call(**CHAT, stream=True, incremental_output=True)
    assert inspect.isgenerator(stream)
    assert server.requests == []
    server.answers.append((200, PIECES))
    assert next(stream).output.choices[0].finish_reason == "null"
    assert recorded.spans == []


@pytest.mark.shape("stream left early")
@BOTH
def test_a_stream_that_is_left_early_is_abandoned(recorded, server, is_async):
    server.answers.append((200, PIECES))
    if is_async:

        async def leave():
            async for _ in await dashscope.AioGeneration.call(**CHAT, stream=True, incremental_output=True):
                break
            await (await get_shared_aio_session()).close()

        asyncio.run(leave())
    else:
        for _ in dashscope.Generation.call(**CHAT, stream=True, incremental_output=True):
            break
    gc.collect()
    record_abandoned()
    span = recorded.span("chat qwen-plus")
    assert span.attributes["rl.inference.stream.ended"] == "abandoned"
    assert span.attributes["gen_ai.usage.output_tokens"] == 1
    assert "gen_ai.response.finish_reasons" not in span.attributes
    assert span.status.status_code is StatusCode.UNSET


def test_a_stream_that_is_never_read_ends_too(recorded, server):
    dashscope.Generation.call(**CHAT, stream=True)
    gc.collect()
    record_abandoned()
    assert recorded.span("chat qwen-plus").attributes["rl.inference.stream.ended"] == "abandoned"


@pytest.mark.bad_input("200 with an error")
@BOTH
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"code": "InvalidParameter", "message": "no"}, "InvalidParameter"),
        (429, {"code": "Throttling.RateQuota", "message": "slow down"}, "Throttling.RateQuota"),
        (502, b"<html>bad gateway</html>", "502"),
    ],
)
def test_an_answer_with_an_error_is_a_failed_call(recorded, server, is_async, stream, status, body, kind):
    server.answers.append((status, body))
    found = call(is_async, **CHAT, stream=stream)
    assert (found[0] if stream else found).status_code == status
    span = recorded.span("chat qwen-plus")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == kind
    assert "gen_ai.usage.input_tokens" not in span.attributes


def test_what_the_client_raises_is_the_same_exception_and_a_failed_call(recorded, server):
    server.shutdown()
    server.server_close()
    with pytest.raises(Exception, match="refused") as raised:
        dashscope.Generation.call(**CHAT)
    span = recorded.span("chat qwen-plus")
    assert span.attributes["error.type"].endswith(type(raised.value).__name__)


@pytest.mark.parametrize("usage", [None, {}, [1], {"input_tokens": "many"}])
@pytest.mark.bad_input("no usage")
def test_a_usage_that_is_missing_or_none_leaves_the_tokens_out(recorded, server, usage):
    server.answers.append((200, answer(choice("4"), usage=usage)))
    with pytest.raises(TypeError) if isinstance(usage, list) else nullcontext():
        dashscope.Generation.call(**CHAT)
    values = recorded.span("chat qwen-plus").attributes
    assert "gen_ai.usage.input_tokens" not in values
    assert values["gen_ai.response.finish_reasons"] == ("stop",)


@pytest.mark.parametrize("chunk", [[1, 2], "busy", {"output": 3}, {"output": {"choices": [None, 1]}}])
@pytest.mark.bad_input("chunk that is no JSON")
def test_a_chunk_that_is_no_answer_costs_its_facts_only(recorded, server, chunk):
    server.answers.append((200, [PIECES[0], chunk, PIECES[2]]))
    stream = BaseApi.call(
        model="qwen-plus",
        input={"messages": MESSAGES},
        task_group="aigc",
        task="text-generation",
        function="generation",
        stream=True,
        incremental_output=True,
        flattened_output=True,
    )
    assert list(stream) == [PIECES[0], chunk, PIECES[2]]
    span = recorded.span("chat qwen-plus")
    assert span.attributes["gen_ai.usage.output_tokens"] == 7
    assert span.status.status_code is StatusCode.UNSET


def test_a_conversation_with_pictures_is_a_chat_and_its_parts_are_typed(recorded, server, content):
    server.answers.append((200, answer(choice([{"text": "a cat"}]))))
    question = [{"role": "user", "content": [{"image": "https://example.com/cat.png"}, {"text": "what?"}]}]
    dashscope.MultiModalConversation.call(model="qwen-vl", messages=question)
    values = recorded.span("chat qwen-vl").attributes
    asked, said = (json.loads(values[f"gen_ai.{way}.messages"])[0]["parts"] for way in ("input", "output"))
    assert {"type": "text", "content": "what?"} in asked
    assert said == [{"type": "text", "content": "a cat"}]


@pytest.mark.parametrize(
    ("chunks", "how"),
    [(PIECES, {"incremental_output": True}), (PIECES, {}), (WHOLE, {})],
    ids=["incremental", "incremental by default", "whole by default"],
)
def test_a_streamed_conversation_has_its_text(recorded, server, content, chunks, how):
    texts = [each["output"]["choices"][0] for each in chunks]
    parts = [answer(choice([{"text": one["message"]["content"]}], one["finish_reason"])) for one in texts]
    server.answers.append((200, parts))
    list(dashscope.MultiModalConversation.call(model="qwen-vl", messages=MESSAGES, stream=True, **how))
    [message] = json.loads(recorded.span("chat qwen-vl").attributes["gen_ai.output.messages"])
    assert message["parts"] == [{"type": "text", "content": "Hello you"}]


def test_an_embedding_has_its_tokens(recorded, server):
    body = {"request_id": "r", "output": {"embeddings": [{"embedding": [0.5], "text_index": 0}]}}
    server.answers.append((200, {**body, "usage": {"total_tokens": 3}}))
    dashscope.TextEmbedding.call(model="text-embedding-v4", input=["a"])
    assert recorded.span("embeddings text-embedding-v4").attributes["gen_ai.usage.input_tokens"] == 3


@pytest.mark.shape("turns", "parallel tools")
@BOTH
def test_tools_that_an_answer_asks_for_belong_to_its_trajectory(recorded, server, is_async):
    calls = [
        {"id": f"c{number}", "type": "function", "index": number, "function": {"name": name, "arguments": '{"a": 2}'}}
        for number, name in enumerate(("add", "multiply"))
    ]
    server.answers.append((200, answer(choice("", "tool_calls", tool_calls=calls))))
    server.answers.append((200, answer(choice("4"))))
    with otel_rl.rollout(rollout_id="r"):
        call(is_async, **CHAT)
        results = [{"role": "tool", "content": "4", "tool_call_id": each["id"]} for each in calls]
        messages = [*MESSAGES, choice("", tool_calls=calls)["message"], *results]
        call(is_async, **{**CHAT, "messages": messages})
    first, _ = (span for span in recorded.spans if span.name == "chat qwen-plus")
    assert first.attributes["rl.inference.tool_calls"] == ("add", "multiply")
    rollout = recorded.span("rl.rollout").attributes
    assert (rollout["rl.rollout.turns"], rollout["rl.rollout.tool_calls"]) == (2, 2)
    assert (rollout["rl.rollout.input_tokens"], rollout["rl.rollout.output_tokens"]) == (22, 14)


@pytest.mark.shape("cancelled")
def test_a_task_that_is_cancelled_cancels_its_call(recorded, server):
    server.answers.append((200, HANG))

    async def run():
        task = asyncio.create_task(dashscope.AioGeneration.call(**CHAT))
        await asyncio.to_thread(server.asked.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await (await get_shared_aio_session()).close()

    with otel_rl.rollout(rollout_id="r"):
        asyncio.run(run())
    assert recorded.span("chat qwen-plus").attributes["error.type"] == "asyncio.exceptions.CancelledError"
    rollout = recorded.span("rl.rollout").attributes
    assert (rollout["rl.rollout.turns"], rollout["rl.rollout.model_calls"]) == (0, 1)


def asking(name, arguments, reason="null", identifier="c1"):
    call = {"index": 0, "id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}
    return answer(choice("", reason, tool_calls=[call]))


@pytest.mark.parametrize(
    ("chunks", "is_incremental"),
    [
        ([asking("add", '{"a"'), asking("", ": 2}", "tool_calls", "")], True),
        ([asking("add", '{"a"'), asking("add", '{"a": 2}', "tool_calls")], None),
        ([asking("add", '{"a"'), asking("add", '{"a": 2}', "tool_calls")], False),
    ],
    ids=["pieces", "whole by default", "whole"],
)
def test_a_streamed_tool_call_is_one_with_valid_arguments(recorded, server, content, chunks, is_incremental):
    server.answers.append((200, chunks))
    stream = BaseApi.call(
        model="qwen-plus",
        input={"messages": MESSAGES},
        task_group="aigc",
        task="text-generation",
        function="generation",
        stream=True,
        **({} if is_incremental is None else {"incremental_output": is_incremental}),
    )
    assert len(list(stream)) == len(chunks)
    values = recorded.span("chat qwen-plus").attributes
    assert values["rl.inference.tool_calls"] == ("add",)
    assert "rl.inference.invalid_tool_calls" not in values
    [message] = json.loads(values["gen_ai.output.messages"])
    assert message["finish_reason"] == "tool_call"
    assert message["parts"][-1] == {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 2}}


def test_a_trace_context_of_the_program_is_sent_as_it_is(server):
    server.answers.append((200, answer(choice("4"))))
    given = {"traceparent": "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"}
    dashscope.Generation.call(**CHAT, headers=given)
    assert server.requests[0][1]["traceparent"] == given["traceparent"]


def test_the_server_is_the_base_address_of_the_call_and_no_workspace_id(recorded, server, monkeypatch):
    monkeypatch.setattr(dashscope, "base_http_api_url", "https://{workspace_id}.eu.example.com/api/v1")
    server.answers.append((200, answer(choice("4"))))
    dashscope.Generation.call(**CHAT, base_address=server.base_url)
    assert recorded.span("chat qwen-plus").attributes["server.address"] == "127.0.0.1"
    recorded.clear()
    with pytest.raises(Exception, match="workspace"):
        dashscope.Generation.call(**CHAT)
    assert recorded.span("chat qwen-plus").attributes["server.address"] == "eu.example.com"


def test_other_services_of_the_client_are_no_model_calls(recorded, server):
    server.answers.append((200, {"request_id": "r", "output": {"results": []}, "usage": {"total_tokens": 1}}))
    dashscope.TextReRank.call(model="gte-rerank", query="q", documents=["d"])
    assert recorded.spans == []
