"""Each call of the client is one span with all tokens, whether the client has a span itself or not."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import anthropic
import pytest
from opentelemetry import trace
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach
from opentelemetry.trace import SpanKind, StatusCode

import otel_rl
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.telemetry import deferral
from otel_rl.training import trajectories

CALL: dict[str, Any] = {
    "model": "claude",
    "max_tokens": 16,
    "messages": [{"role": "user", "content": "planted prompt"}],
}
TOOLS: Any = [{"name": "add", "description": "planted", "input_schema": {"type": "object", "properties": {}}}]
NAMES = {"native": "anthropic.messages.create", "own": "chat claude"}


def _helper(client, call):
    with client.messages.stream(**call) as stream:
        return stream.get_final_message()


def _streaming_response(client, call):
    with client.messages.with_streaming_response.create(**call, stream=True) as response:
        return list(response.parse())


def _body(client, call):
    with client.messages.with_streaming_response.create(**call) as response:
        return response.read()


def _lines(client, call):
    with client.messages.with_streaming_response.create(**call, stream=True) as response:
        return list(response.iter_lines())


#: name -> (call, streamed)
SHAPES = {
    "create": (lambda c, call: c.messages.create(**call), False),
    "beta": (lambda c, call: c.beta.messages.create(**call), False),
    "raw": (lambda c, call: c.messages.with_raw_response.create(**call).parse(), False),
    "stream": (lambda c, call: list(c.messages.create(**call, stream=True)), True),
    "next": (lambda c, call: _all(iter(c.messages.create(**call, stream=True))), True),
    "helper": (_helper, True),
    "streaming response": (_streaming_response, True),
    "body, read by the program": (_body, False),
    "lines, read by the program": (_lines, True),
}


def _all(iterator):
    return [*iterator]


def _row(recorded):
    trajectories.record()
    (body,) = [record.body for record in recorded.events("rl.trajectories")]
    return {key.removeprefix("rl.rollout."): values[0] for key, values in body.items()}


def _expect(recorded, server, spans_of, *, streamed):
    (span,) = recorded.spans
    assert span.name == NAMES[spans_of]
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code in (StatusCode.UNSET, StatusCode.OK)
    found = dict(span.attributes)
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.provider.name"] == "anthropic"
    assert found["gen_ai.request.model"] == "claude"
    assert found["gen_ai.request.temperature"] == 0.5
    assert found["gen_ai.response.model"] == "claude-served"
    assert found["gen_ai.response.id"] == "msg_1"
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["gen_ai.usage.input_tokens"] == 17
    assert found["gen_ai.usage.output_tokens"] == 7
    assert found["gen_ai.usage.cache_read.input_tokens"] == 4
    assert found["gen_ai.usage.cache_write.input_tokens"] == 2
    assert found["gen_ai.usage.reasoning.output_tokens"] == 3
    assert found["rl.inference.retries"] == 0
    assert found.get("rl.inference.stream.ended") == ("completed" if streamed else None)
    assert not [key for key, value in found.items() if "planted" in str(value)]
    points = recorded.metrics()
    (duration,) = points["gen_ai.client.operation.duration"]
    assert (duration.count, duration.attributes["gen_ai.provider.name"]) == (1, "anthropic")
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]}
    assert tokens == {"input": 17, "output": 7}
    _, headers, _ = server.requests[0]
    trace_id, span_id = headers["traceparent"].split("-")[1:3]
    assert (int(trace_id, 16), int(span_id, 16)) == (span.context.trace_id, span.context.span_id)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_gives_one_span_with_all_tokens(shape, recorded, server, client, spans_of):
    call, streamed = SHAPES[shape]
    call(client, {**CALL, "extra_body": {"temperature": 0.5}})
    _expect(recorded, server, spans_of, streamed=streamed)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("scope", "measured"), [("strands.telemetry.tracer", 1), ("of.an.agent.library", 0)])
def test_inside_of_a_span_for_the_same_call_that_is_the_only_one(
    scope, measured, streamed, recorded, server, client, spans_of
):
    chat = {"gen_ai.operation.name": "chat"}
    with trace.get_tracer(scope).start_as_current_span("chat claude", attributes=chat) as owner:
        answer = client.messages.create(**CALL, stream=streamed)
        if streamed:
            list(answer)
    (span,) = recorded.spans
    assert span.context == owner.get_span_context()
    assert span.attributes["rl.inference.retries"] == 0
    assert len(recorded.metrics().get("gen_ai.client.operation.duration", ())) == measured
    _, headers, _ = server.requests[0]
    assert int(headers["traceparent"].split("-")[2], 16) == span.context.span_id


@pytest.mark.parametrize(("host", "expected"), [("api.example.com", None), ("127.0.0.1", "r1")])
def test_our_baggage_goes_to_private_hosts_only(host, expected, instrumented, spans_of):
    library = getattr(anthropic._base_client, "httpx2", None) or anthropic._base_client.httpx
    sent = []

    def answer(request):
        sent.append(request.headers.get("baggage", ""))
        return library.Response(200, json={"type": "message", "role": "assistant", "model": "claude", "content": []})

    http = library.Client(transport=library.MockTransport(answer))
    token = attach(set_baggage("rl.rollout.id", "r1"))
    try:
        anthropic.Anthropic(api_key="none", base_url=f"https://{host}", http_client=http).messages.create(**CALL)
    finally:
        detach(token)
    (header,) = sent
    assert dict(entry.split("=") for entry in filter(None, header.split(","))).get("rl.rollout.id") == expected


async def test_an_async_call_gives_one_span_with_all_tokens(recorded, server, async_client, spans_of):
    await async_client.messages.create(**CALL, extra_body={"temperature": 0.5})
    _expect(recorded, server, spans_of, streamed=False)


@pytest.mark.shape("stream")
async def test_an_async_stream_gives_one_span_with_all_tokens(recorded, server, async_client, spans_of):
    stream = await async_client.messages.create(**CALL, extra_body={"temperature": 0.5}, stream=True)
    assert isinstance(stream, anthropic.AsyncStream)
    assert [event async for event in stream][-1].type == "message_stop"
    _expect(recorded, server, spans_of, streamed=True)


def test_retries_are_one_span_with_their_number(recorded, server, client, spans_of):
    server.failures = 2
    client.messages.create(**CALL)
    (span,) = recorded.spans
    assert span.attributes["rl.inference.retries"] == 2


@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_is_the_same_exception_and_an_error_span(streamed, recorded, client, spans_of):
    with pytest.raises(anthropic.NotFoundError) as raised:
        client.messages.create(**{**CALL, "model": "missing"}, stream=streamed)
    assert type(raised.value) is anthropic.NotFoundError
    (span,) = recorded.spans
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["rl.inference.retries"] == 0
    (point,) = recorded.metrics()["gen_ai.client.operation.duration"]
    assert point.attributes["error.type"] == "anthropic.NotFoundError"


def test_an_error_inside_of_a_stream_fails_the_call(recorded, client, spans_of):
    with otel_rl.rollout(), pytest.raises(anthropic.APIStatusError):
        list(client.messages.create(**{**CALL, "model": "breaking"}, stream=True))
    span = recorded.spans[0]
    assert span.status.status_code is StatusCode.ERROR
    assert _row(recorded)["model_errors"] == 1


@pytest.mark.bad_input("chunk that is no JSON")
def test_a_chunk_that_is_no_json_raises_as_ever_and_fails_the_call(recorded, client, spans_of):
    with pytest.raises(json.JSONDecodeError):
        list(client.messages.create(**{**CALL, "model": "chunk_no_json"}, stream=True))
    (span,) = recorded.spans
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["gen_ai.usage.input_tokens"] == 17


def test_a_stream_that_the_server_cut_short_is_not_taken_for_a_whole_answer(recorded, client, spans_of):
    list(client.messages.create(**{**CALL, "model": "cut_short"}, stream=True))
    (span,) = recorded.spans
    assert "gen_ai.response.finish_reasons" not in span.attributes
    assert "gen_ai.usage.output_tokens" not in span.attributes


@pytest.mark.parametrize("model", ["error_with_200", "no_json", "no_usage"])
@pytest.mark.bad_input("200 with an error", "no usage")
def test_bad_answers_arrive_as_they_are(model, recorded, client, spans_of):
    answer = client.messages.create(**{**CALL, "model": model})
    (span,) = recorded.spans
    assert "gen_ai.usage.output_tokens" not in span.attributes
    (point,) = recorded.metrics()["gen_ai.client.operation.duration"]
    assert point.attributes.get("error.type") == ("overloaded_error" if model == "error_with_200" else None)
    if model == "no_json":
        assert answer == "planted <html>"


def test_counting_tokens_is_no_model_call(recorded, client, spans_of):
    with otel_rl.rollout():
        assert client.messages.count_tokens(model="claude", messages=CALL["messages"]).input_tokens == 11
    assert "gen_ai.client.operation.duration" not in recorded.metrics()
    assert not _row(recorded).get("model_calls")


# -- streams that are left ------------------------------------------------------------------------------------------


def _left(recorded, spans_of, ended):
    record_abandoned()
    (span,) = [span for span in recorded.spans if span.name != "rl.rollout"]
    assert span.attributes["rl.inference.stream.ended"] == ended
    assert span.attributes["gen_ai.usage.input_tokens"] == 17
    assert "gen_ai.usage.output_tokens" not in span.attributes, "the first event has a placeholder"
    row = _row(recorded)
    assert (row["model_calls"], row["input_tokens"]) == (1, 17)


@pytest.mark.shape("stream left early")
def test_a_closed_stream_is_said_to_be_closed(recorded, client, spans_of):
    with otel_rl.rollout(), client.messages.create(**CALL, stream=True) as stream:
        next(iter(stream))
    _left(recorded, spans_of, "closed")


def test_a_helper_that_is_left_closes_its_stream(recorded, client, spans_of):
    with otel_rl.rollout(), client.messages.stream(**CALL) as stream:
        next(iter(stream))
    _left(recorded, spans_of, "closed")


def test_a_dropped_stream_is_said_to_be_abandoned(recorded, client, spans_of):
    def first(stream):
        for event in stream:
            return event.type
        return None

    with otel_rl.rollout():
        assert first(client.messages.create(**CALL, stream=True)) == "message_start"
        gc.collect()
    _left(recorded, spans_of, "abandoned")


@pytest.mark.shape("cancelled")
async def test_a_cancelled_stream_is_said_to_be_cancelled(recorded, server, async_client, spans_of):
    async def read():
        async for _ in await async_client.messages.create(**{**CALL, "model": "stalling"}, stream=True):
            pass

    task = asyncio.create_task(read())
    await asyncio.to_thread(server.wait_for_slow_request)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (span,) = recorded.spans
    assert span.attributes.get("rl.inference.stream.ended") == "cancelled"


async def test_a_cancelled_call_ends_its_span(recorded, server, async_client, spans_of):
    task = asyncio.create_task(async_client.messages.create(**{**CALL, "model": "slow"}))
    await asyncio.to_thread(server.wait_for_slow_request)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (span,) = recorded.spans
    (point,) = recorded.metrics()["gen_ai.client.operation.duration"]
    assert point.attributes["error.type"] == "asyncio.exceptions.CancelledError"
    assert span.attributes["rl.inference.retries"] == 0


# -- the row --------------------------------------------------------------------------------------------------------


@pytest.mark.shape("turns", "parallel tools", "failing tool")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_tools_that_it_asks_for_count_by_their_results(streamed, fails, recorded, client, spans_of):
    tools = [*TOOLS, {**TOOLS[0], "name": "bad"}]

    def ask(messages):
        answer = client.messages.create(**{**CALL, "messages": messages}, tools=tools, stream=streamed)
        return list(answer) if streamed else answer

    with otel_rl.rollout():
        ask(CALL["messages"])
        uses = [
            {"type": "tool_use", "id": f"toolu_{number}", "name": tool["name"], "input": {}}
            for number, tool in enumerate(tools, 1)
        ]
        results = [
            {
                "type": "tool_result",
                "tool_use_id": use["id"],
                "content": "planted result",
                "is_error": fails and use["name"] == "bad",
            }
            for use in uses
        ]
        answered = [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
        ask([*CALL["messages"], *answered])
    first, second = [span for span in recorded.spans if span.name != "rl.rollout"]
    assert first.attributes["rl.inference.tool_calls"] == ("add", "bad")
    assert first.attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert (first.attributes["rl.rollout.turn"], second.attributes["rl.rollout.turn"]) == (1, 2)
    returned = [event.attributes["gen_ai.tool.name"] for event in recorded.events("rl.tool.returned")]
    assert sorted(returned) == ["add", "bad"]
    row = _row(recorded)
    assert (row["turns"], row["model_calls"], row["input_tokens"], row["output_tokens"]) == (2, 2, 34, 14)
    assert (row["tool_calls"], row["tool_errors"]) == (2, int(fails))


# -- content --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
def test_content_is_recorded_by_our_switch(streamed, recorded, client, spans_of, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    call = {**CALL, "system": "planted system", "tools": TOOLS}
    first = client.messages.create(**call, stream=streamed)
    if streamed:
        list(first)
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "four"}]}
    asked = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}]}
    second = client.messages.create(
        **{**call, "messages": [*CALL["messages"], asked, {"role": "user", "content": [result]}]}, stream=streamed
    )
    if streamed:
        list(second)
    found = [span.attributes for span in recorded.spans]
    assert json.loads(found[0]["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "toolu_1", "name": "add", "arguments": {"a": 1}}],
            "finish_reason": "tool_call",
        }
    ]
    assert json.loads(found[0]["gen_ai.system_instructions"]) == [{"type": "text", "content": "planted system"}]
    assert json.loads(found[0]["gen_ai.tool.definitions"])[0]["name"] == "add"
    inputs = json.loads(found[1]["gen_ai.input.messages"])
    assert inputs[1]["parts"] == [{"type": "tool_call", "id": "toolu_1", "name": "add", "arguments": {"a": 1}}]
    assert inputs[2]["parts"] == [
        {"type": "tool_call_response", "id": "toolu_1", "response": [{"type": "text", "content": "four"}]}
    ]
    assert "planted answer" in found[1]["gen_ai.output.messages"]


def _runner(client, **given):
    from anthropic import beta_async_tool, beta_tool

    if isinstance(client, anthropic.AsyncAnthropic):

        @beta_async_tool
        async def add(a: int) -> str:
            """Add."""
            return str(a)
    else:

        @beta_tool
        def add(a: int) -> str:
            """Add."""
            return str(a)

    messages = [{"role": "user", "content": "planted"}]
    return client.beta.messages.tool_runner(model="claude", max_tokens=16, tools=[add], messages=messages, **given)


async def _run_to_its_end(client, async_client):
    await _runner(async_client).until_done()


async def _run_with_streams(client, async_client):
    for stream in _runner(client, stream=True):
        stream.until_done()


async def _run_and_leave(client, async_client):
    runner = _runner(client)
    next(runner)
    next(runner)
    getattr(runner, "close", runner._iterator.close)()


@pytest.mark.parametrize("run", [_run_to_its_end, _run_with_streams, _run_and_leave])
async def test_a_run_of_a_tool_runner_is_a_trajectory(run, recorded, client, async_client):
    await run(client, async_client)
    deferral.drain_all()
    record_abandoned()
    trajectories.record()
    (row,) = [record.body for record in recorded.events("rl.trajectories")]
    assert row["gen_ai.agent.name"] == ["anthropic.messages.tool_runner"]
    assert (row["rl.rollout.model_calls"], row["rl.rollout.tool_calls"]) == ([2], [1])
    named = [span for span in recorded.spans if span.attributes.get("gen_ai.operation.name") == "invoke_agent"]
    assert len(named) == 1
