"""Each request for content is one span with its tokens, those of automatic function calling too."""

from __future__ import annotations

import asyncio
import gc
import json

import pytest
from google.genai import errors, types
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

import otel_rl
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.training import trajectories

MODEL = "gemini"
CALL = {"model": MODEL, "contents": "planted prompt", "config": {"temperature": 0.5, "max_output_tokens": 16}}


async def _stream(client, call):
    return [chunk async for chunk in await client.aio.models.generate_content_stream(**call)]


SHAPES = {
    "sync": (lambda client, call: client.models.generate_content(**call), False),
    "stream": (lambda client, call: list(client.models.generate_content_stream(**call)), True),
    "async": (lambda client, call: asyncio.run(client.aio.models.generate_content(**call)), False),
    "async stream": (lambda client, call: asyncio.run(_stream(client, call)), True),
}


def _row(recorded):
    trajectories.record()
    (body,) = [record.body for record in recorded.events("rl.trajectories")]
    return {key.removeprefix("rl.rollout."): values[0] for key, values in body.items()}


def _calls(recorded):
    return [span for span in recorded.spans if span.kind is SpanKind.CLIENT]


@pytest.mark.shape("stream")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_gives_one_span_with_tokens_and_metrics(shape, recorded, server, client):
    call, streamed = SHAPES[shape]
    call(client, CALL)
    (span,) = recorded.spans
    found = dict(span.attributes)
    assert span.name == "generate_content gemini"
    assert found["gen_ai.provider.name"] == "gcp.gemini"
    assert (found["server.address"], found["server.port"]) == ("127.0.0.1", server.server_port)
    assert (found["gen_ai.request.temperature"], found["gen_ai.request.max_tokens"]) == (0.5, 16)
    assert found["gen_ai.response.model"] == "gemini-served"
    assert found["gen_ai.response.id"] == "resp-1"
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (11, 7)
    assert found["gen_ai.usage.cache_read.input_tokens"] == 4
    assert found["gen_ai.usage.reasoning.output_tokens"] == 2
    assert found["rl.inference.retries"] == 0
    assert found.get("rl.inference.stream.ended") == ("completed" if streamed else None)
    assert not [key for key, value in found.items() if "planted" in str(value)]
    points = recorded.metrics()
    assert [point.count for point in points["gen_ai.client.operation.duration"]] == [1]
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]}
    assert tokens == {"input": 11, "output": 7}
    _, headers, _ = server.requests[0]
    trace_id, span_id = headers["traceparent"].split("-")[1:3]
    assert (int(trace_id, 16), int(span_id, 16)) == (span.context.trace_id, span.context.span_id)


def test_inside_of_a_span_for_the_same_call_metrics_have_the_operation_of_that(recorded, client):
    tracer, chat = trace.get_tracer("strands.telemetry.tracer"), {"gen_ai.operation.name": "chat"}
    with tracer.start_as_current_span("chat gemini", attributes=chat):
        client.models.generate_content(**CALL)
    assert [span.name for span in recorded.spans] == ["chat gemini"]
    points = recorded.metrics()
    for name in ("gen_ai.client.operation.duration", "gen_ai.client.token.usage"):
        assert {point.attributes["gen_ai.operation.name"] for point in points[name]} == {"chat"}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_error_is_the_same_exception_and_an_error_span(shape, recorded, client):
    with otel_rl.rollout(), pytest.raises(errors.ClientError):
        SHAPES[shape][0](client, {**CALL, "model": "missing"})
    (span,) = _calls(recorded)
    assert span.status.status_code is StatusCode.ERROR
    assert _row(recorded)["model_errors"] == 1


@pytest.mark.parametrize("shape", ["stream", "async stream"])
def test_an_error_inside_of_a_stream_fails_the_call(shape, recorded, client):
    with pytest.raises(errors.APIError):
        SHAPES[shape][0](client, {**CALL, "model": "breaking"})
    (span,) = recorded.spans
    assert span.status.status_code is StatusCode.ERROR


@pytest.mark.bad_input("chunk that is no JSON")
@pytest.mark.parametrize("shape", ["stream", "async stream"])
def test_a_chunk_that_is_no_json_raises_as_ever_and_fails_the_call(shape, recorded, client):
    with pytest.raises(errors.UnknownApiResponseError):
        SHAPES[shape][0](client, {**CALL, "model": "chunk_no_json"})
    (span,) = recorded.spans
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["gen_ai.usage.input_tokens"] == 11


@pytest.mark.bad_input("200 with an error")
@pytest.mark.parametrize("shape", ["sync", "async"])
def test_an_error_in_the_body_of_a_200_fails_the_call(shape, recorded, client):
    with otel_rl.rollout():
        SHAPES[shape][0](client, {**CALL, "model": "error_with_200"})
    (span,) = _calls(recorded)
    assert "error.type" in span.attributes
    assert _row(recorded)["model_errors"] == 1


@pytest.mark.bad_input("no usage")
def test_an_answer_without_usage_has_no_tokens(recorded, client):
    client.models.generate_content(**{**CALL, "model": "without_usage"})
    (span,) = recorded.spans
    assert "gen_ai.usage.input_tokens" not in span.attributes


@pytest.mark.shape("stream left early")
@pytest.mark.parametrize("form", ["sync", "async", "never read"])
def test_a_stream_that_is_left_counts_as_far_as_it_came(form, recorded, client):
    async def first():
        stream = await client.aio.models.generate_content_stream(**CALL)
        if form == "async":
            async for _ in stream:
                break

    with otel_rl.rollout():
        if form == "sync":
            next(client.models.generate_content_stream(**CALL))
        else:
            asyncio.run(first())
        gc.collect()
    record_abandoned()
    spans = _calls(recorded)
    if form == "never read":
        # The generator of the client sends nothing before its first item is asked for.
        assert len(spans) <= 1
        return
    (span,) = spans
    assert span.attributes["rl.inference.stream.ended"] == "abandoned"
    assert span.attributes["gen_ai.usage.input_tokens"] == 11
    assert _row(recorded)["model_calls"] == 1


@pytest.mark.shape("cancelled")
async def test_a_cancelled_stream_is_said_to_be_cancelled(recorded, server, client):
    task = asyncio.create_task(_stream(client, {**CALL, "model": "stalling"}))
    await asyncio.to_thread(server.wait_for_slow_request)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (span,) = recorded.spans
    assert span.attributes["rl.inference.stream.ended"] == "cancelled"


@pytest.mark.parametrize("shape", ["sync", "async"])
@pytest.mark.parametrize("fails", [False, True])
def test_automatic_function_calling_is_two_calls_and_a_tool(shape, fails, recorded, client):
    def add(a: int) -> int:
        """Planted description."""
        if fails:
            raise ValueError("planted")
        return a + 1

    # Earlier versions do not take them as text.
    add.__annotations__.update({"a": int, "return": int})
    with otel_rl.rollout():
        SHAPES[shape][0](client, {**CALL, "config": {"tools": [add]}})
    first, second = _calls(recorded)
    assert first.attributes["rl.inference.tool_calls"] == ("add",)
    assert (first.attributes["rl.rollout.turn"], second.attributes["rl.rollout.turn"]) == (1, 2)
    tool = recorded.span("execute_tool add")
    assert (tool.status.status_code is StatusCode.ERROR) == fails
    row = _row(recorded)
    assert (row["model_calls"], row["input_tokens"], row["output_tokens"]) == (2, 22, 14)
    assert (row["tool_calls"], row["tool_errors"]) == (1, int(fails))


@pytest.mark.shape("turns", "parallel tools", "failing tool")
@pytest.mark.parametrize("shape", ["sync", "stream"])
def test_tools_that_the_program_runs_count_by_their_results(shape, recorded, client):
    names = ("add", "bad")
    declared = [types.FunctionDeclaration(name=name, description="planted") for name in names]
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=declared)])
    call = SHAPES[shape][0]
    with otel_rl.rollout():
        call(client, {**CALL, "contents": "planted", "config": config})
        asked = [types.Part.from_function_call(name=name, args={"a": 1}) for name in names]
        results = [
            types.Part.from_function_response(name="add", response={"result": 2}),
            types.Part.from_function_response(name="bad", response={"error": "planted"}),
        ]
        contents = [types.UserContent("planted"), types.ModelContent(asked), types.UserContent(results)]
        call(client, {**CALL, "contents": contents, "config": config})
    assert _calls(recorded)[0].attributes["rl.inference.tool_calls"] == names
    row = _row(recorded)
    assert (row["turns"], row["model_calls"], row["input_tokens"], row["output_tokens"]) == (2, 2, 22, 14)
    assert (row["tool_calls"], row["tool_errors"]) == (2, 1)
    returned = [event.attributes["gen_ai.tool.name"] for event in recorded.events("rl.tool.returned")]
    assert sorted(returned) == ["add", "bad"]


@pytest.mark.parametrize("shape", ["sync", "stream"])
def test_content_is_recorded_by_the_switch(shape, recorded, client, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    config = {"system_instruction": "planted system"}
    SHAPES[shape][0](client, {**CALL, "config": config})
    (span,) = recorded.spans
    assert json.loads(span.attributes["gen_ai.system_instructions"]) == [{"type": "text", "content": "planted system"}]
    (sent,) = json.loads(span.attributes["gen_ai.input.messages"])
    assert sent == {"role": "user", "parts": [{"type": "text", "content": "planted prompt"}]}
    (answered,) = json.loads(span.attributes["gen_ai.output.messages"])
    assert "".join(part["content"] for part in answered["parts"]) == "planted answer"


def test_its_requests_count_once_beside_the_instrumentor_of_its_http_client(recorded, client):
    from otel_rl.instrumentors.httpx import HttpxInstrumentor

    http = HttpxInstrumentor()
    http.instrument(skip_dep_check=True)
    try:
        client.models.generate_content(model="gemini-x", contents="planted")
        for _ in client.models.generate_content_stream(model="gemini-x", contents="planted"):
            pass
    finally:
        http.uninstrument()
    assert [span.instrumentation_scope.name for span in _calls(recorded)] == ["otel_rl.google_genai"] * 2


def test_an_embedding_is_no_turn(recorded, client):
    with otel_rl.rollout():
        client.models.embed_content(model="embedding", contents="planted")
    (span,) = _calls(recorded)
    assert span.name == "embeddings embedding"
    assert not _row(recorded).get("model_calls")
