"""Content that is too long is shortened before it is encoded: what is recorded is valid, for every kind of call."""

from __future__ import annotations

from typing import Any

import pytest
from support.fake_openai import CHAT, COMPLETION, RESPONSE, RESPONSE_EVENTS

from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH

genai_messages = pytest.importorskip("support.genai_messages", exc_type=ImportError)

LONG = '"\\\n' * 20_000
PIECES = 40
PIECE = "x" * 1000
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 5000}}
MESSAGES = [{"role": "user", "content": LONG}] * 3
CUT = f"[truncated, {len(LONG)} characters]"
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny-served"}
CHUNKS = [{**HEAD, "choices": [{"index": 0, "delta": {"content": PIECE}, "finish_reason": None}]}] * PIECES
CALL_CHUNKS = [
    {
        **HEAD,
        "choices": [
            {
                "index": 0,
                "delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "add", "arguments": PIECE}}]},
                "finish_reason": None,
            }
        ],
    }
] * PIECES
MANY_TOOLS = [
    {"type": "function", "function": {"name": f"tool_{n}", "description": LONG, "parameters": {"type": "object"}}}
    for n in range(100)
]


def _written(text: str) -> dict[str, Any]:
    return {**RESPONSE["output"][0], "content": [{"type": "output_text", "text": text, "annotations": []}]}


def _chat(client: Any, **options: Any) -> None:
    list(client.chat.completions.create(**{"model": "tiny", "messages": MESSAGES, **options}))


def _completion(client: Any, **options: Any) -> None:
    list(client.completions.create(model="tiny", prompt=LONG, **options))


def _response(client: Any, **options: Any) -> None:
    if not hasattr(client, "responses"):
        pytest.skip("this version of openai has no responses")
    list(client.responses.create(**{"model": "tiny", "input": MESSAGES, "instructions": LONG, **options}))


#: name -> (call, its options, what the server adds to its answer, chunks of its stream, text in the recorded answer)
CALLS: dict[str, Any] = {
    "chat": (_chat, {}, {"choices": [{**CHAT["choices"][0], "message": {"role": "assistant", "content": LONG}}]}, CUT),
    "chat, many messages": (_chat, {"messages": [{"role": "user", "content": "hi"}] * 1000}, {}, "x"),
    "chat, many tools": (_chat, {"tools": MANY_TOOLS}, {}, "x"),
    "chat, images": (_chat, {"messages": [{"role": "user", "content": [IMAGE] * 3}]}, {}, "x"),
    "chat, streamed": (_chat, {"stream": True}, CHUNKS, f"[truncated, {PIECES * len(PIECE)} characters]"),
    "chat, streamed tool call": (_chat, {"stream": True}, CALL_CHUNKS, "truncated"),
    "completions": (_completion, {}, {"choices": [{**COMPLETION["choices"][0], "text": LONG}]}, CUT),
    "completions, streamed": (
        _completion,
        {"stream": True},
        [{**COMPLETION, "choices": [{**COMPLETION["choices"][0], "text": PIECE}]}] * PIECES,
        f"[truncated, {PIECES * len(PIECE)} characters]",
    ),
    "responses": (_response, {}, {"output": [_written(LONG)]}, CUT),
    "responses, streamed": (
        _response,
        {"stream": True},
        [*RESPONSE_EVENTS[:-1], {**RESPONSE_EVENTS[-1], "response": {**RESPONSE, "output": [_written(LONG)]}}],
        CUT,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_long_content_is_valid_and_fits(name, recorded, server, client, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    call, options, answer, expected = CALLS[name]
    if isinstance(answer, list):
        server.chunks = answer
    else:
        server.extra = answer
    call(client, **options)

    (span,) = recorded.spans
    found = genai_messages.check_attributes(span.attributes)
    assert {"gen_ai.input.messages", "gen_ai.output.messages"} <= found.keys()
    assert all(len(span.attributes[key]) <= MAXIMUM_LENGTH for key in found)
    assert expected in str(found["gen_ai.output.messages"])
    if "messages" not in options:
        assert CUT in str(found["gen_ai.input.messages"])


def test_of_many_messages_and_tools_the_middle_is_left_out(recorded, client, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    _chat(client, messages=[{"role": "user", "content": "hi"}] * 1000, tools=MANY_TOOLS)

    found = genai_messages.check_attributes(recorded.spans[0].attributes)
    assert "omitted" in {message["role"] for message in found["gen_ai.input.messages"]}
    assert "omitted" in {tool["type"] for tool in found["gen_ai.tool.definitions"]}
