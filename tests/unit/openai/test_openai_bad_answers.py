"""Answers that fail without raising, and servers that send what the protocol does not have."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.trace import StatusCode
from support.fake_openai import RESPONSE, RESPONSE_EVENTS

from otel_rl.inference.answers import Answer
from otel_rl.telemetry import attribute_values
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
HEAD = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
FAILED = {**RESPONSE, "status": "failed", "error": {"code": "server_error", "message": "boom"}, "output": []}
ERROR_EVENT = {"type": "error", "sequence_number": 1, "code": "rate_limit_exceeded", "message": "slow down"}


@pytest.fixture
def responses(client):
    if not hasattr(client, "responses"):
        pytest.skip("this version of openai has no responses")
    return client.responses


def test_a_failed_response_is_an_error_of_the_code_it_names(recorded, server, responses):
    server.extra = FAILED
    assert responses.create(model="tiny", input="x").status == "failed"
    span = recorded.span("chat tiny")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "server_error"
    assert span.attributes["gen_ai.response.finish_reasons"] == ("error",)
    (point,) = recorded.metrics()["gen_ai.client.operation.duration"]
    assert point.attributes["error.type"] == "server_error"


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ({"type": "response.failed", "sequence_number": 4, "response": FAILED}, "server_error"),
        (
            {"type": "response.failed", "sequence_number": 4, "response": {**FAILED, "error": None}},
            "response_failed",
        ),
        (ERROR_EVENT, "rate_limit_exceeded"),
    ],
    ids=["failed", "failed without a code", "error event"],
)
def test_a_streamed_response_that_fails_is_an_error(last, expected, recorded, server, responses):
    server.chunks = [*RESPONSE_EVENTS[:-1], last]
    assert len(list(responses.create(model="tiny", input="x", stream=True))) == len(server.chunks)
    span = recorded.span("chat tiny")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == expected
    assert span.attributes["rl.inference.stream.ended"] == "completed"


@pytest.mark.parametrize(
    ("answer", "reasons"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, ("length",)),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, ("content_filter",)),
        ({"status": "cancelled"}, ("cancelled",)),
        ({"status": "queued", "output": []}, None),
    ],
    ids=str,
)
def test_a_response_that_is_not_complete_says_why_and_is_no_error(answer, reasons, recorded, server, responses):
    server.extra = answer
    responses.create(model="tiny", input="x")
    span = recorded.span("chat tiny")
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes.get("gen_ai.response.finish_reasons") == reasons


def test_finish_reasons_are_in_the_order_of_the_choices(recorded, server, client):
    server.chunks = [
        {**HEAD, "choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]},
        {**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    list(client.chat.completions.create(**CHAT, n=2, stream=True))
    assert recorded.span("chat tiny").attributes["gen_ai.response.finish_reasons"] == ("stop", "length")


@pytest.mark.bad_input("chunk that is no JSON")
def test_a_chunk_that_is_no_json_raises_what_it_raises_without_us(recorded, server, client):
    server.chunks = [{**HEAD, "choices": []}, "{not json"]
    with pytest.raises(json.JSONDecodeError):
        list(client.chat.completions.create(**CHAT, stream=True))
    span = recorded.span("chat tiny")
    assert span.attributes["error.type"] == "json.decoder.JSONDecodeError"


ODD_CHUNKS = [
    {**HEAD, "choices": None},
    {**HEAD, "choices": 7},
    {**HEAD, "choices": ["x", None, 3]},
    {**HEAD, "choices": [{}]},
    {**HEAD, "choices": [{"index": "two", "delta": "text", "finish_reason": 5, "token_ids": "abc"}]},
    {**HEAD, "choices": [{"index": 0, "delta": {"content": {"a": 1}, "tool_calls": 7}}]},
    {**HEAD, "choices": [{"index": 0, "delta": {"tool_calls": ["x", {"index": None, "function": "f"}]}}]},
    {**HEAD, "id": 17, "model": ["m"], "choices": [], "usage": "many", "metrics": "fast", "metadata": [1]},
    {**HEAD, "choices": [], "usage": {"prompt_tokens": "7", "completion_tokens": -1, "prompt_tokens_details": 3}},
    {**HEAD, "choices": [], "usage": {"prompt_tokens": 7.0, "completion_tokens": 3.5}},
    {"type": 9},
    {},
    7,
    None,
    "text",
    [1, 2],
]


@pytest.mark.parametrize("captures", ["", "SPAN_ONLY"])
def test_chunks_of_another_form_reach_the_program_as_without_us(captures, recorded, server, client, monkeypatch):
    from otel_rl.instrumentors.openai import OpenAIInstrumentor

    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", captures)
    server.chunks = [chunk for chunk in map(json.dumps, ODD_CHUNKS) if chunk != "null"]

    def read() -> str:
        try:
            return repr(list(client.chat.completions.create(**CHAT, stream=True)))
        except Exception as error:  # noqa: BLE001 - whatever the client makes of it
            return repr(error)

    instrumented = read()
    OpenAIInstrumentor().uninstrument()
    assert read() == instrumented
    OpenAIInstrumentor().instrument(skip_dep_check=True)
    assert len(recorded.spans) == 1


@pytest.mark.parametrize("captures", [False, True])
def test_what_a_server_sends_in_another_form_is_left_out(captures):
    answer = Answer(captures)
    for chunk in ODD_CHUNKS:
        answer.observe_chunk(chunk)
        answer.observe(chunk)
    found = answer.server_attributes()
    answer.add_attributes(found)
    assert answer.response_id == "c"
    assert answer.model == "m"
    assert (answer.input_tokens, answer.output_tokens) == (7, None)
    answer.output_messages()


@pytest.mark.parametrize("number", [10**400, 1 << 53, 1e300, -1, float("nan"), "7"])
def test_a_number_that_cannot_be_a_count_or_a_time_is_left_out(number):
    answer = Answer()
    answer.observe({"choices": [{}], "usage": {"prompt_tokens": number}, "metrics": {"queue_time_ms": number}})
    assert answer.input_tokens is None
    assert answer.server_attributes() == {}


def test_a_count_beyond_all_bounds_costs_no_metric_of_other_calls(recorded, server, client):
    client.chat.completions.create(**CHAT)
    server.extra = {"usage": {"prompt_tokens": 10**400, "completion_tokens": 3, "total_tokens": 3}}
    client.chat.completions.create(**CHAT)
    found = recorded.metrics()
    (duration,) = found["gen_ai.client.operation.duration"]
    assert duration.count == 2
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in found["gen_ai.client.token.usage"]}
    assert tokens == {"input": 7, "output": 6}


def test_ids_that_are_no_text_become_text(recorded, server, client):
    server.extra = {
        "id": 17,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": 3}],
    }
    client.chat.completions.create(**CHAT)
    found = recorded.span("chat tiny").attributes
    assert found["gen_ai.response.id"] == "17"
    assert found["gen_ai.response.finish_reasons"] == ("3",)


@pytest.mark.parametrize(
    "text", ["half a \ud83d", "a\0b", "x" * (MAXIMUM_LENGTH + 1)], ids=["surrogate", "NUL", "long"]
)
def test_texts_of_a_server_are_recorded_as_they_may_leave_the_process(text, recorded, server, client):
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": text}
    server.extra = {"id": text, "model": text, "choices": [choice], "metadata": {"weight_version": text}}
    client.chat.completions.create(**CHAT)
    found, expected = recorded.span("chat tiny").attributes, attribute_values.text(text)
    assert expected != text
    assert found["gen_ai.response.id"] == found["gen_ai.response.model"] == expected
    assert found["gen_ai.response.finish_reasons"] == (expected,)
    assert found["rl.inference.weight_version"] == expected


KEYS = st.sampled_from(
    [
        "choices",
        "delta",
        "index",
        "finish_reason",
        "content",
        "text",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "usage",
        "prompt_tokens",
        "model",
        "completion_tokens",
        "prompt_tokens_details",
        "token_ids",
        "metrics",
        "queue_time_ms",
        "metadata",
        "weight_version",
        "type",
        "response",
        "status",
        "output",
        "error",
        "item",
        "output_index",
        "system_fingerprint",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from(["error", "failed"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=15,
)


@settings(max_examples=200, deadline=None)
@given(chunks=st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=4), captures=st.booleans())
def test_no_answer_of_any_form_raises(chunks, captures):
    answer = Answer(captures)
    for chunk in chunks:
        answer.observe_chunk(chunk)
        answer.observe(chunk)
    found = answer.server_attributes()
    answer.add_attributes(found)
    # Nothing looks at them any more before they are on the span; what it keeps has to be immutable.
    assert not any(isinstance(value, list) for value in found.values())
    as_clean = {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}
    assert attribute_values.clean(found) == as_clean
    answer.output_messages()


@pytest.mark.bad_input("stream that never ends")
def test_a_stream_that_never_ends_keeps_a_bounded_amount(recorded, client):
    answer = Answer(captures=True)
    chunk = {**HEAD, "choices": [{"index": 0, "delta": {"content": "x" * 64}}]}
    for _ in range(10_000):
        answer.observe_chunk(chunk)
    for index in range(10_000):
        answer.observe_chunk(
            {**HEAD, "choices": [{"index": index, "delta": {"content": "y"}, "finish_reason": "stop"}]}
        )
        answer.observe_chunk({"type": "response.output_item.added", "output_index": index, "item": {"type": "message"}})
        calls = [{"index": index, "id": "c", "function": {"name": "f"}}]
        answer.observe_chunk({**HEAD, "choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
    kept = answer.output_messages()
    assert kept is not None
    assert len(kept) <= MAXIMUM_LENGTH
    assert answer.output_chunks == 30_000
    assert len(answer.finish_reasons) == 1024
    assert sum(1 for _ in itertools.chain.from_iterable(m["parts"] for m in answer._content.messages())) <= 512


#: A gateway in front of an engine that is gone; and the two forms of vLLM and SGLang.
ERROR_BODIES = {
    "error": ({"error": {"message": "m", "type": "server_error", "code": None}}, "server_error"),
    "vllm": ({"error": {"message": "m", "type": "BadRequestError", "param": None, "code": 400}}, "BadRequestError"),
    "object": ({"object": "error", "message": "m", "type": "NotFoundError", "code": 404}, "NotFoundError"),
}
CALLS = {
    "chat": lambda c: c.chat.completions.create(**CHAT),
    "chat, raw": lambda c: c.chat.completions.with_raw_response.create(**CHAT).parse(),
    "completions": lambda c: c.completions.create(model="tiny", prompt="x"),
    "embeddings": lambda c: c.embeddings.create(model="tiny", input="x", encoding_format="float"),
    "raw post": lambda c: c.post("/completions", body={"model": "tiny", "prompt": "x"}, cast_to=object),
}


@pytest.mark.parametrize("form", ERROR_BODIES)
@pytest.mark.parametrize("shape", CALLS)
def test_an_error_in_the_body_of_a_200_fails_the_call_and_gives_the_program_what_it_got_before(
    shape, form, recorded, server, client
):
    from otel_rl import rollout
    from otel_rl.instrumentors.openai import OpenAIInstrumentor

    server.body, expected = ERROR_BODIES[form]

    def call() -> str:
        try:
            return repr(CALLS[shape](client))
        except Exception as error:  # noqa: BLE001 - whatever the client makes of it
            return repr(error)

    with rollout():
        given = call()
    OpenAIInstrumentor().uninstrument()
    assert call() == given
    OpenAIInstrumentor().instrument(skip_dep_check=True)
    if given.startswith("ValueError"):
        # Of some versions, for embeddings without data.
        expected = "ValueError"
    [span] = [span for span in recorded.spans if span.name != "rl.rollout"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == expected
    [point] = recorded.metrics()["gen_ai.client.operation.duration"]
    assert point.attributes["error.type"] == expected
    assert recorded.span("rl.rollout").attributes["rl.rollout.model_errors"] == 1


@pytest.mark.bad_input("200 with an error")
async def test_an_error_in_the_body_of_a_200_fails_an_async_call(recorded, server, async_client):
    server.body, expected = ERROR_BODIES["vllm"]
    assert (await async_client.chat.completions.create(**CHAT)).choices is None
    assert recorded.span("chat tiny").attributes["error.type"] == expected


@pytest.mark.parametrize("model", ["null", "list"])
@pytest.mark.parametrize("raw", [False, True])
def test_json_that_is_no_object_is_no_answer(model, raw, recorded, client):
    from otel_rl import rollout

    completions = client.chat.completions
    with rollout():
        try:
            if raw:
                completions.with_raw_response.create(**{**CHAT, "model": model}).parse()
            else:
                completions.create(**{**CHAT, "model": model})
        except Exception:  # noqa: BLE001, S110 - whatever this version of the client makes of it
            pass
    assert "error.type" in recorded.span(f"chat {model}").attributes
    found = recorded.span("rl.rollout").attributes
    assert (found["rl.rollout.turns"], found["rl.rollout.model_errors"]) == (0, 1)
