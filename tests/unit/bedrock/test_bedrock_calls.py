"""Each Converse is one span with its tokens, below whatever other instrumentor has wrapped."""

from __future__ import annotations

import gc
import json

import botocore.exceptions
import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

import otel_rl
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.training import trajectories

MESSAGES = [{"role": "user", "content": [{"text": "planted prompt"}]}]
CALL = {"modelId": "amazon.nova:0", "messages": MESSAGES, "inferenceConfig": {"maxTokens": 16, "temperature": 0.5}}
TOOLS = {"tools": [{"toolSpec": {"name": "add", "inputSchema": {"json": {"type": "object"}}}}]}
SHAPES = {
    "converse": (lambda client, call: client.converse(**call), False),
    "stream": (lambda client, call: list(client.converse_stream(**call)["stream"]), True),
}


def _row(recorded):
    trajectories.record()
    (body,) = [record.body for record in recorded.events("rl.trajectories")]
    return {key.removeprefix("rl.rollout."): values[0] for key, values in body.items()}


def _calls(recorded):
    return [span for span in recorded.spans if span.kind is SpanKind.CLIENT]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_gives_one_span_with_all_tokens(shape, recorded, server, client):
    call, streamed = SHAPES[shape]
    call(client, CALL)
    (span,) = recorded.spans
    found = dict(span.attributes)
    assert span.name == "chat amazon.nova:0"
    assert found["gen_ai.provider.name"] == "aws.bedrock"
    assert (found["gen_ai.request.max_tokens"], found["gen_ai.request.temperature"]) == (16, 0.5)
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (17, 7)
    assert found["gen_ai.usage.cache_read.input_tokens"] == 4
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["rl.inference.retries"] == 0
    assert found.get("rl.inference.stream.ended") == ("completed" if streamed else None)
    assert not [key for key, value in found.items() if "planted" in str(value)]
    points = recorded.metrics()
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]}
    assert tokens == {"input": 17, "output": 7}
    _, headers, _ = server.requests[0]
    assert int(headers["traceparent"].split("-")[2], 16) == span.context.span_id


def test_its_requests_count_once_beside_the_instrumentor_of_its_http_client(recorded, client):
    from otel_rl.instrumentors.urllib3 import Urllib3Instrumentor

    http = Urllib3Instrumentor()
    http.instrument(skip_dep_check=True)
    try:
        client.converse(modelId="m", messages=[{"role": "user", "content": [{"text": "planted"}]}])
    finally:
        http.uninstrument()
    assert [span.instrumentation_scope.name for span in _calls(recorded)] == ["otel_rl.bedrock"]


def test_invoking_a_model_has_its_tokens_from_the_head(recorded, client):
    answer = client.invoke_model(modelId="titan", body=json.dumps({"inputText": "planted", "temperature": 0.5}))
    assert json.loads(answer["body"].read()) == {"completion": "planted"}
    (span,) = recorded.spans
    assert span.name == "text_completion titan"
    assert (span.attributes["gen_ai.usage.input_tokens"], span.attributes["gen_ai.usage.output_tokens"]) == (11, 7)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_error_is_the_same_exception_and_a_failed_call(shape, recorded, client):
    with otel_rl.rollout(), pytest.raises(botocore.exceptions.ClientError, match="ValidationException"):
        SHAPES[shape][0](client, {**CALL, "modelId": "refused"})
    (span,) = _calls(recorded)
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "400")
    assert _row(recorded)["model_errors"] == 1


def test_an_error_inside_of_a_stream_fails_the_call(recorded, client):
    with pytest.raises(botocore.exceptions.EventStreamError):
        SHAPES["stream"][0](client, {**CALL, "modelId": "breaking"})
    gc.collect()
    record_abandoned()
    (span,) = recorded.spans
    assert span.attributes["error.type"] == "throttlingException"


@pytest.mark.bad_input("no usage")
def test_an_answer_without_usage_has_no_tokens(recorded, client):
    client.converse(**{**CALL, "modelId": "without_usage"})
    (span,) = recorded.spans
    assert "gen_ai.usage.input_tokens" not in span.attributes


@pytest.mark.shape("stream left early")
@pytest.mark.parametrize("ended", ["closed", "abandoned"])
def test_a_stream_that_is_left_is_a_call_all_the_same(ended, recorded, client):
    def leave():
        stream = client.converse_stream(**{**CALL, "modelId": "stalling"})["stream"]
        next(iter(stream))
        if ended == "closed":
            stream.close()

    with otel_rl.rollout():
        leave()
        gc.collect()
    record_abandoned()
    (span,) = _calls(recorded)
    assert span.attributes["rl.inference.stream.ended"] == ended
    assert _row(recorded)["model_calls"] == 1


@pytest.mark.shape("turns", "stream", "parallel tools", "failing tool")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fails", [False, True])
def test_tools_that_it_asks_for_count_by_their_results(shape, fails, recorded, client):
    call = SHAPES[shape][0]
    names = ("add", "bad")
    tools = {"tools": [{"toolSpec": {**TOOLS["tools"][0]["toolSpec"], "name": name}} for name in names]}
    with otel_rl.rollout():
        call(client, {**CALL, "toolConfig": tools})
        uses = [
            {"toolUse": {"toolUseId": f"tooluse_{number}", "name": name, "input": {"a": 1}}}
            for number, name in enumerate(names, 1)
        ]
        results = [
            {
                "toolResult": {
                    "toolUseId": use["toolUse"]["toolUseId"],
                    "content": [{"text": "planted"}],
                    "status": "error" if fails and use["toolUse"]["name"] == "bad" else "success",
                }
            }
            for use in uses
        ]
        answered = [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
        call(client, {**CALL, "toolConfig": tools, "messages": [*MESSAGES, *answered]})
    first, _ = _calls(recorded)
    assert first.attributes["rl.inference.tool_calls"] == names
    row = _row(recorded)
    assert (row["turns"], row["model_calls"], row["input_tokens"], row["output_tokens"]) == (2, 2, 34, 14)
    assert (row["tool_calls"], row["tool_errors"]) == (2, int(fails))


@pytest.mark.parametrize("shape", SHAPES)
def test_content_is_recorded_by_the_switch(shape, recorded, client, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    SHAPES[shape][0](client, {**CALL, "system": [{"text": "planted system"}]})
    (span,) = recorded.spans
    assert json.loads(span.attributes["gen_ai.system_instructions"]) == [{"type": "text", "content": "planted system"}]
    (sent,) = json.loads(span.attributes["gen_ai.input.messages"])
    assert sent["parts"] == [{"type": "text", "content": "planted prompt"}]
    (answered,) = json.loads(span.attributes["gen_ai.output.messages"])
    assert answered["parts"] == [{"type": "text", "content": "planted answer"}]


def test_a_span_around_the_call_is_the_span_of_the_call(recorded, client):
    """As the official instrumentors open it: of a scope of theirs, with the operation."""
    tracer = trace.get_tracer("opentelemetry.instrumentation.botocore.bedrock-runtime")
    attributes = {"gen_ai.operation.name": "chat"}
    with otel_rl.rollout(), tracer.start_as_current_span("chat x", kind=SpanKind.CLIENT, attributes=attributes):
        client.converse(**CALL)
    (span,) = _calls(recorded)
    assert span.attributes["rl.rollout.turn"] == 1
    assert "gen_ai.client.token.usage" not in recorded.metrics(), "the owner has it"
    assert _row(recorded)["input_tokens"] == 17


def test_other_operations_are_none(recorded, client, server):
    with pytest.raises(botocore.exceptions.ClientError):
        client.get_async_invoke(invocationArn="arn:aws:bedrock:us-east-1:123456789012:async-invoke/abcdefghijkl")
    assert recorded.spans == []
