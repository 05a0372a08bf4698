"""Content on request: of the conventions' shape for every kind of call, and as the official instrumentor records it."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
from support.fake_openai import COMPLETION, RESPONSE, RESPONSE_EVENTS

from otel_rl.inference.dropped_answers import record_abandoned

genai_messages = pytest.importorskip("support.genai_messages", exc_type=ImportError)

USER = {"role": "user", "content": "hi"}
CHAT: dict[str, Any] = {"model": "tiny", "messages": [USER]}
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny-served"}
TOOLS = [{"type": "function", "function": {"name": "add", "description": "adds", "parameters": {"type": "object"}}}]


def _choice(message: dict[str, Any], reason: str, index: int = 0) -> dict[str, Any]:
    return {"index": index, "message": {"role": "assistant", **message}, "finish_reason": reason}


def _call(name: str, arguments: str, identifier: str = "call_1") -> dict[str, Any]:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def _chunk(delta: dict[str, Any], reason: str | None = None, index: int = 0) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": index, "delta": delta, "finish_reason": reason}]}


def _call_chunk(index: int, arguments: str, **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": fields.pop("name")} if "name" in fields else {})}
    return _chunk({"tool_calls": [{"index": index, "function": function, **fields}]})


TOOL_CHUNKS = [
    _call_chunk(0, "", id="call_1", type="function", name="add"),
    _call_chunk(0, '{"a"'),
    _call_chunk(1, "", id="call_2", type="function", name="add"),
    _call_chunk(0, ": 1}"),
    _call_chunk(1, '{"a": 2}'),
    _chunk({}, "tool_calls"),
]
TWO_CHOICES = [
    _chunk({"role": "assistant", "content": "a0"}, index=0),
    _chunk({"role": "assistant", "content": "b0"}, index=1),
    _chunk({"content": " a1"}, index=0),
    _chunk({"content": " b1"}, index=1),
    _chunk({}, "length", index=1),
    _chunk({}, "stop", index=0),
]
TEXTS = [{"index": index, "text": text, "finish_reason": "length"} for index, text in enumerate("ab")]
FUNCTION_CALL = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'}
MESSAGE = RESPONSE["output"][0]
FUNCTION_RESPONSE = {**RESPONSE, "output": [MESSAGE, {**FUNCTION_CALL, "status": "completed"}]}
FUNCTION_EVENTS = [
    RESPONSE_EVENTS[0],
    {
        "type": "response.output_item.added",
        "sequence_number": 1,
        "output_index": 0,
        "item": {**FUNCTION_CALL, "arguments": "", "status": "in_progress"},
    },
    {
        "type": "response.function_call_arguments.delta",
        "sequence_number": 2,
        "output_index": 0,
        "item_id": "fc",
        "delta": '{"a": 1}',
    },
    {
        "type": "response.completed",
        "sequence_number": 3,
        "response": {**RESPONSE, "output": [{**FUNCTION_CALL, "status": "completed"}]},
    },
]
TEXT = {"type": "text", "content": "hi"}
ADD = {"type": "tool_call", "id": "call_1", "name": "add", "arguments": {"a": 1}}
ADD_2 = {"type": "tool_call", "id": "call_2", "name": "add", "arguments": {"a": 2}}


def _answer(*parts: dict[str, Any], reason: str | None = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "parts": list(parts)}
    return message if reason is None else {**message, "finish_reason": reason}


def _said(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _history(client: Any) -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what?"},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [_call("add", '{"a": 1}')]},
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
    ]
    client.chat.completions.create(model="tiny", messages=messages, tools=TOOLS)


def _multimodal(client: Any, **options: Any) -> None:
    content = [
        {"type": "text", "text": "what?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    list(client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": content}], **options))


def _multimodal_response(client: Any, **options: Any) -> None:
    content = [
        {"type": "input_text", "text": "what?"},
        {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"},
        {"type": "input_file", "file_id": "file-1"},
    ]
    history = [
        {"role": "user", "content": content},
        {"type": "function_call", "call_id": "c0", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c0", "output": "42"},
    ]
    tools = [{**TOOLS[0]["function"], "type": "function", "strict": True}]
    given = {"model": "tiny", "input": history, "instructions": "be brief", "tools": tools}
    list(client.responses.create(**given, **options))


def _early(client: Any) -> None:
    with client.chat.completions.create(**CHAT, stream=True) as stream:
        for _ in range(3):
            next(stream)


def _early_completion(client: Any) -> None:
    with client.completions.create(model="tiny", prompt="hi", stream=True) as stream:
        next(stream)


def _early_response(client: Any) -> None:
    with client.responses.create(model="tiny", input="hi", stream=True) as stream:
        for _ in range(4):
            next(stream)


#: name -> (call, what the server adds to its answer, chunks of its stream, expected output messages)
SHAPES: dict[str, Any] = {
    "chat": (lambda c: c.chat.completions.create(**CHAT), {}, None, [_answer(_said('{"x": 1}'))]),
    "history": (_history, {}, None, [_answer(_said('{"x": 1}'))]),
    "n=2": (
        lambda c: c.chat.completions.create(**CHAT, n=2),
        {"choices": [_choice({"content": "a"}, "stop"), _choice({"content": "b"}, "length", 1)]},
        None,
        [_answer(_said("a")), _answer(_said("b"), reason="length")],
    ),
    "tool call": (
        lambda c: c.chat.completions.create(**CHAT, tools=TOOLS),
        {"choices": [_choice({"content": None, "tool_calls": [_call("add", '{"a": 1}')]}, "tool_calls")]},
        None,
        [_answer(ADD, reason="tool_call")],
    ),
    "refusal": (
        lambda c: c.chat.completions.create(**CHAT),
        {"choices": [_choice({"content": None, "refusal": "no"}, "stop")]},
        None,
        [_answer(_said("no"))],
    ),
    "streamed": (
        lambda c: list(c.chat.completions.create(**CHAT, stream=True)),
        {},
        None,
        [_answer(_said("word0 word1 word2 word3 word4 "))],
    ),
    "streamed n=2": (
        lambda c: list(c.chat.completions.create(**CHAT, n=2, stream=True)),
        {},
        TWO_CHOICES,
        [_answer(_said("a0 a1")), _answer(_said("b0 b1"), reason="length")],
    ),
    "streamed tool calls": (
        lambda c: list(c.chat.completions.create(**CHAT, tools=TOOLS, stream=True)),
        {},
        TOOL_CHUNKS,
        [_answer(ADD, ADD_2, reason="tool_call")],
    ),
    "streamed reasoning": (
        lambda c: list(c.chat.completions.create(**CHAT, stream=True)),
        {},
        [_chunk({"reasoning": "hm"}), _chunk({"content": "yes"}), _chunk({}, "stop")],
        [_answer({"type": "reasoning", "content": "hm"}, _said("yes"))],
    ),
    "closed early": (_early, {}, None, [_answer(_said("word0 word1 "), reason=None)]),
    "multimodal": (_multimodal, {}, None, [_answer(_said('{"x": 1}'))]),
    "streamed multimodal": (
        lambda c: _multimodal(c, stream=True),
        {},
        None,
        [_answer(_said("word0 word1 word2 word3 word4 "))],
    ),
    "spoken answer": (
        lambda c: c.chat.completions.create(**CHAT),
        {"choices": [_choice({"audio": {"id": "a", "data": "aGk=", "expires_at": 1, "transcript": "hi"}}, "stop")]},
        None,
        [_answer(TEXT)],
    ),
    "completions": (
        lambda c: c.completions.create(model="tiny", prompt="hi"),
        {},
        None,
        [_answer(_said("hello"), reason="length")],
    ),
    "completions streamed": (
        lambda c: list(c.completions.create(model="tiny", prompt="hi", stream=True)),
        {},
        None,
        [_answer(_said("hellohello"), reason="length")],
    ),
    "completions n=2": (
        lambda c: c.completions.create(model="tiny", prompt="hi", n=2),
        {"choices": TEXTS},
        None,
        [_answer(_said("a"), reason="length"), _answer(_said("b"), reason="length")],
    ),
    "completions streamed n=2": (
        lambda c: list(c.completions.create(model="tiny", prompt="hi", n=2, stream=True)),
        {},
        [{**COMPLETION, "choices": [text]} for text in TEXTS],
        [_answer(_said("a"), reason="length"), _answer(_said("b"), reason="length")],
    ),
    "completions closed early": (_early_completion, {}, None, [_answer(_said("hello"), reason=None)]),
    "responses": (lambda c: c.responses.create(model="tiny", input="hi"), {}, None, [_answer(TEXT)]),
    "responses tool call": (
        lambda c: c.responses.create(model="tiny", input="hi"),
        FUNCTION_RESPONSE,
        None,
        [_answer(TEXT, {**ADD, "id": "c1"}, reason="tool_call")],
    ),
    "responses streamed": (
        lambda c: list(c.responses.create(model="tiny", input="hi", stream=True)),
        {},
        None,
        [_answer(TEXT)],
    ),
    "responses streamed tool call": (
        lambda c: list(c.responses.create(model="tiny", input="hi", stream=True)),
        {},
        FUNCTION_EVENTS,
        [_answer({**ADD, "id": "c1"}, reason="tool_call")],
    ),
    "responses multimodal": (_multimodal_response, {}, None, [_answer(TEXT)]),
    "responses streamed multimodal": (lambda c: _multimodal_response(c, stream=True), {}, None, [_answer(TEXT)]),
    "responses closed early": (_early_response, {}, None, [_answer(TEXT, reason=None)]),
}
#: What the official instrumentor (1.3b0) records otherwise.
OFFICIAL_DIFFERS = {
    "streamed reasoning": "it leaves reasoning out of chats",
    "spoken answer": "it leaves the transcript out",
    "closed early": "it says the reason of a stream without one is an error",
    "completions": "it does not see text completions",
    "completions streamed": "it does not see text completions",
    "completions n=2": "it does not see text completions",
    "completions streamed n=2": "it does not see text completions",
    "completions closed early": "it does not see text completions",
    "responses closed early": "it records nothing of the answer",
}


@pytest.fixture(autouse=True)
def _content(monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")


def _make(shape: str, server: Any, client: Any) -> None:
    call, server.extra, server.chunks, _ = SHAPES[shape]
    if shape.startswith("responses") and not hasattr(client, "responses"):
        pytest.skip("this version of openai has no responses")
    call(client)
    gc.collect()
    record_abandoned()


@pytest.mark.parametrize("shape", SHAPES)
def test_content_has_the_shape_of_the_conventions(shape, recorded, server, client):
    _make(shape, server, client)
    (span,) = recorded.spans
    found = genai_messages.check_attributes(span.attributes)
    assert found["gen_ai.input.messages"]
    assert found["gen_ai.output.messages"] == SHAPES[shape][3]
    if "multimodal" in shape:
        kinds = [part["type"] for part in found["gen_ai.input.messages"][0]["parts"]]
        assert kinds == (["text", "uri", "file"] if "responses" in shape else ["text", "blob", "blob", "file"])
        assert ("gen_ai.system_instructions" in found) == ("responses" in shape)


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("shape", SHAPES)
def test_content_is_what_the_official_instrumentor_records(shape, recorded, server):
    official = pytest.importorskip("opentelemetry.instrumentation.genai.openai").OpenAIInstrumentor()
    import openai

    official.instrument(skip_dep_check=True)
    try:
        with openai.OpenAI(api_key="none", base_url=server.base_url) as client:
            _make(shape, server, client)
    finally:
        official.uninstrument()
    spans = recorded.spans
    theirs = _without_null(json.loads(spans[0].attributes.get("gen_ai.output.messages", "[]"))) if spans else []
    expected = SHAPES[shape][3]
    by_type = [sorted(message["parts"], key=lambda part: part["type"]) for message in expected]
    same = [sorted(message["parts"], key=lambda part: part["type"]) for message in theirs] == by_type and [
        message.get("finish_reason") for message in theirs
    ] == [message.get("finish_reason") for message in expected]
    assert same is (shape not in OFFICIAL_DIFFERS), theirs


def test_content_is_on_an_event_where_the_user_wants_it_there(recorded, client, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "EVENT_ONLY")
    client.chat.completions.create(**CHAT)
    span = recorded.span("chat tiny")
    assert "gen_ai.input.messages" not in span.attributes
    (event,) = recorded.events("gen_ai.client.inference.operation.details")
    genai_messages.check_messages(event.attributes["gen_ai.input.messages"])
    genai_messages.check_messages(event.attributes["gen_ai.output.messages"], output=True)
    assert event.attributes["gen_ai.request.model"] == "tiny"
    assert event.attributes["gen_ai.usage.output_tokens"] == 3
    assert (event.trace_id, event.span_id) == (span.context.trace_id, span.context.span_id)


def test_content_may_be_on_span_and_event(recorded, client, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_and_event")
    client.chat.completions.create(**CHAT)
    (event,) = recorded.events("gen_ai.client.inference.operation.details")
    assert recorded.span("chat tiny").attributes["gen_ai.output.messages"] == event.attributes["gen_ai.output.messages"]


@pytest.mark.parametrize("wanted", ["", "NO_CONTENT", "false", "nonsense"])
@pytest.mark.parametrize("shape", ["chat", "streamed tool calls", "responses"])
def test_no_content_is_recorded_unless_the_user_asks(shape, wanted, recorded, server, client, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", wanted)
    _make(shape, server, client)
    (span,) = recorded.spans
    assert not [key for key in span.attributes if key.endswith((".messages", ".definitions", "_instructions"))]
    assert recorded.events() == []


def test_the_messages_are_those_that_were_sent_though_the_program_changes_its_list(recorded, client):
    messages = [dict(USER)]
    stream = client.chat.completions.create(model="tiny", messages=messages, stream=True)
    messages.append({"role": "user", "content": "later"})
    list(stream)
    (message,) = json.loads(recorded.span("chat tiny").attributes["gen_ai.input.messages"])
    assert message["parts"] == [TEXT]
