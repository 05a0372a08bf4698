"""Captured content has the shape of the conventions, whatever a program sends, and fits into one attribute."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.genai_messages import check_instructions, check_messages, check_tools

from otel_rl.inference import messages, shortening
from otel_rl.semconv import attributes
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def _input(body: dict[str, Any]) -> list[dict[str, Any]]:
    return check_messages(messages.of_request(body)[attributes.GEN_AI_INPUT_MESSAGES])


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "system", "content": "be brief"}, [{"type": "text", "content": "be brief"}]),
        (
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            [{"type": "tool_call", "id": "call_1", "name": "add", "arguments": {"a": 1}}],
        ),
        (
            {"role": "assistant", "content": "I add", "reasoning_content": "hm", "tool_calls": [CALL]},
            [
                {"type": "reasoning", "content": "hm"},
                {"type": "text", "content": "I add"},
                {"type": "tool_call", "id": "call_1", "name": "add", "arguments": {"a": 1}},
            ],
        ),
        ({"role": "assistant", "refusal": "no"}, [{"type": "text", "content": "no"}]),
        (
            {"role": "assistant", "function_call": {"name": "old", "arguments": "{broken"}},
            [{"type": "tool_call", "name": "old", "arguments": "{broken"}],
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "x", "input": "y"}}]},
            [{"type": "tool_call", "id": "c", "name": "x", "arguments": "y"}],
        ),
        (
            {"role": "tool", "tool_call_id": "call_1", "content": "3"},
            [{"type": "tool_call_response", "id": "call_1", "response": "3"}],
        ),
        (
            {"role": "tool", "tool_call_id": "call_1", "content": None},
            [{"type": "tool_call_response", "id": "call_1", "response": None}],
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "what?"}, IMAGE]},
            [
                {"type": "text", "content": "what?"},
                {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "aGk="},
            ],
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]},
            [{"type": "uri", "modality": "image", "uri": "https://x/y.png"}],
        ),
        (
            {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://x/y.mp4"}}]},
            [{"type": "uri", "modality": "video", "uri": "https://x/y.mp4"}],
        ),
        (
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}]},
            [{"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "aGk="}],
        ),
        (
            {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]},
            [{"type": "file", "modality": "document", "file_id": "file-1"}],
        ),
        ({"role": "user", "content": ["a", "b"]}, [{"type": "text", "content": "a"}, {"type": "text", "content": "b"}]),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_a_chat_message_has_its_parts(message, expected):
    (found,) = _input({"messages": [message]})
    assert found == {"role": message["role"], "parts": expected}


def test_messages_may_be_objects_and_have_names():
    given_messages = [SimpleNamespace(role="user", content="hi", name="ann")]
    assert _input({"messages": given_messages}) == [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}], "name": "ann"}
    ]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("x", [[{"type": "text", "content": "x"}]]),
        (["x", "y"], [[{"type": "text", "content": "x"}], [{"type": "text", "content": "y"}]]),
        ([1, 2, 3], [[{"type": "token_ids", "count": 3}]]),
        ([[1, 2], [3]], [[{"type": "token_ids", "count": 2}], [{"type": "token_ids", "count": 1}]]),
    ],
)
def test_a_prompt_is_a_message_of_the_user_and_token_ids_are_counted(prompt, expected):
    assert [message["parts"] for message in _input({"prompt": prompt})] == expected


def test_the_history_of_responses_keeps_roles_calls_and_results():
    items = [
        {"role": "user", "content": "q"},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "think"}]},
        {"type": "reasoning", "id": "r2", "summary": []},
        {"type": "function_call", "call_id": "c0", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c0", "output": "42"},
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "x"}},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "brief"}]},
        {"type": "compaction", "id": "k", "encrypted_content": "secret"},
    ]
    assert _input({"input": items}) == [
        {"role": "user", "parts": [{"type": "text", "content": "q"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "think"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c0", "name": "f", "arguments": {}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c0", "response": "42"}]},
        {
            "role": "assistant",
            "parts": [
                {
                    "type": "server_tool_call",
                    "name": "web_search",
                    "server_tool_call": {"type": "web_search", "action": {"query": "x"}},
                    "id": "ws",
                }
            ],
        },
        {"role": "developer", "parts": [{"type": "text", "content": "brief"}]},
        {"role": "assistant", "parts": [{"type": "compaction"}]},
    ]


def test_instructions_and_tools_have_their_own_attributes():
    found = messages.of_request(
        {
            "input": "q",
            "instructions": "be brief",
            "tools": [
                {"type": "function", "name": "flat", "parameters": {"type": "object"}},
                {"type": "function", "function": {"name": "nested", "description": "does"}},
                {"type": "web_search"},
                {"type": "mcp", "server_label": "files"},
            ],
        }
    )
    check_instructions(found[attributes.GEN_AI_SYSTEM_INSTRUCTIONS])
    assert check_tools(found[attributes.GEN_AI_TOOL_DEFINITIONS]) == [
        {"type": "function", "name": "flat", "parameters": {"type": "object"}},
        {"type": "function", "name": "nested", "description": "does"},
        {"type": "web_search", "name": "web_search"},
        {"type": "mcp", "name": "files"},
    ]


def test_a_long_text_is_cut_and_its_neighbours_are_kept():
    body = {"messages": [{"role": "system", "content": "short"}, {"role": "user", "content": "x" * 100_000}]}
    captured = messages.of_request(body)[attributes.GEN_AI_INPUT_MESSAGES]
    first, second = check_messages(captured)
    assert first["parts"][0]["content"] == "short"
    assert second["parts"][0]["content"].startswith("xxxx")
    assert "truncated" in second["parts"][0]["content"]
    assert MAXIMUM_LENGTH * 3 // 4 < len(captured) <= MAXIMUM_LENGTH


def test_of_a_long_history_the_first_and_the_last_messages_are_kept():
    body = {"messages": [{"role": "user", "content": f"number {n}"} for n in range(1000)]}
    captured = messages.of_request(body)[attributes.GEN_AI_INPUT_MESSAGES]
    found = check_messages(captured)
    assert len(captured) <= MAXIMUM_LENGTH
    assert found[0]["parts"][0]["content"] == "number 0"
    assert found[-1]["parts"][0]["content"] == "number 999"
    (omitted,) = [message for message in found if message["role"] == "omitted"]
    assert omitted["parts"] == [{"type": "omitted", "count": 1000 - len(found) + 1}]


def test_encoded_data_that_does_not_fit_is_left_out_with_its_size():
    data = "QUJD" * 5000
    content = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}]
    (found,) = _input({"messages": [{"role": "user", "content": content}]})
    (part,) = found["parts"]
    assert (part["content"], part["byte_size"]) == ("", 15000)


@pytest.mark.parametrize(
    "kind", ["blob", "uri", "tool_call", "tool_call_response", "server_tool_call", "server_tool_call_response"]
)
def test_a_part_of_a_kind_whose_fields_it_lacks_is_left_out_and_loses_no_other(kind):
    content = [{"type": kind}, {"type": "text", "text": "hello"}]
    (found,) = _input({"messages": [{"role": "user", "content": content}]})
    assert found["parts"] == [{"type": "text", "content": "hello"}]


def test_arguments_and_results_that_do_not_fit_become_their_text():
    call = {"id": "c", "function": {"name": "f", "arguments": json.dumps({"x": ["y" * 50] * 140})}}
    body = {"messages": [{"role": "assistant", "tool_calls": [call] * 3}]}
    (found,) = _input(body)
    assert all(isinstance(part["arguments"], str) for part in found["parts"])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "name",
        "id",
        "call_id",
        "image_url",
        "file",
        "input_audio",
        "tool_calls",
        "function",
        "arguments",
        "summary",
        "output",
        "refusal",
        "reasoning",
        "audio",
        "tool_call_id",
        "function_call",
        "file_id",
        "url",
        "input",
    ]
)
KINDS = st.sampled_from(
    [
        "text",
        "input_text",
        "refusal",
        "image_url",
        "input_image",
        "input_audio",
        "file",
        "video_url",
        "function_call",
        "reasoning",
        "message",
        "function_call_output",
        "web_search_call",
        "compaction",
        "item_reference",
        "assistant",
        "tool",
        "system",
    ]
)
MESSAGES = st.recursive(
    ANYTHING | KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=6),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(body=st.dictionaries(st.sampled_from(["messages", "input", "prompt", "instructions", "tools"]), MESSAGES))
def test_whatever_a_program_sends_is_recorded_as_valid_json_that_fits(body):
    for captured in messages.of_request(body).values():
        assert len(captured) <= MAXIMUM_LENGTH
        for record in json.loads(captured):
            assert isinstance(record, dict)
    for message in messages.output_messages({"choices": body.get("messages"), "output": body.get("input")}):
        assert isinstance(message["role"], str)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.builds(
            lambda size, parts, char: {"role": "user", "parts": [{"type": "text", "content": char * size}] * parts},
            st.integers(0, 3000),
            st.integers(0, 70),
            st.sampled_from(['"', "\\", "a", "\n", "\0", "\ud800", "🙂"]),
        ),
        max_size=70,
    )
)
def test_messages_of_any_number_and_length_fit_and_stay_valid(given_messages):
    captured = shortening.messages_as_json(given_messages)
    assert len(captured) <= MAXIMUM_LENGTH
    check_messages(captured)
