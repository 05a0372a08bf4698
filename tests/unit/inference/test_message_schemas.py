"""The schemas that captured content is checked against refuse what is not of the conventions' shape."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator
from support import message_schemas
from support.message_schemas import INPUT, INSTRUCTIONS, OUTPUT, TOOLS

PUBLISHED = pytest.mark.skipif(
    not message_schemas.CHECKOUT, reason="OTEL_RL_SEMANTIC_CONVENTIONS names no checkout of the semantic conventions"
)
SOURCES = [message_schemas.derived, pytest.param(message_schemas.published, marks=PUBLISHED)]
TEXT = {"type": "text", "content": "hi"}


def _message(*parts, **fields):
    return {"role": "user", "parts": list(parts), **fields}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (INPUT, [_message(TEXT), {"role": "omitted", "parts": [{"type": "omitted", "count": 3}]}]),
        (INPUT, [_message({"type": "tool_call", "name": "add"})]),
        (INPUT, [_message({"type": "compaction"})]),
        (OUTPUT, [_message(TEXT, finish_reason="stop")]),
        (OUTPUT, [_message(TEXT)]),
        (INSTRUCTIONS, [TEXT]),
        (TOOLS, [{"type": "function", "name": "add", "parameters": {"type": "object"}}, {"type": "mcp", "name": "x"}]),
    ],
)
def test_content_of_the_conventions_shape_passes(source, attribute, value):
    assert Draft202012Validator(source(attribute)).is_valid(value)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (INPUT, {}),
        (INPUT, [{"role": "user"}]),
        (INPUT, [{"parts": [TEXT]}]),
        (INPUT, [_message({"type": "text"})]),
        (INPUT, [_message({"type": "text", "content": 1})]),
        (INPUT, [_message({"type": "invented", "content": "hi"})]),
        (INPUT, [_message({"type": "tool_call", "id": "call_1"})]),
        (INPUT, [_message({"type": "tool_call_response", "id": "call_1"})]),
        (INPUT, [_message({"type": "blob", "content": "aGk="})]),
        (INPUT, [_message({"type": "uri", "modality": "image"})]),
        (OUTPUT, [_message(TEXT, finish_reason=1)]),
        (INSTRUCTIONS, [{"type": "invented"}]),
        (TOOLS, [{"type": "function"}]),
        (TOOLS, [{"type": "function", "name": "add", "parameters": "an object"}]),
    ],
)
def test_content_of_another_shape_is_refused(source, attribute, value):
    assert not Draft202012Validator(source(attribute)).is_valid(value)


def _fields(schema):
    """Kind of part -> what it requires, and the other fields it describes."""
    found = {}
    for name, definition in schema["$defs"].items():
        fields = definition.get("properties", {})
        kind = fields.get("type", {}).get("const", "message" if name in ("ChatMessage", "OutputMessage") else None)
        kind = "message" if name == "InputMessage" else kind
        if kind is not None:
            required = set(definition["required"])
            found[kind] = (required, fields.keys() - required)
    return found


@PUBLISHED
@pytest.mark.parametrize("attribute", [INPUT, OUTPUT, TOOLS])
def test_the_installed_types_differ_from_the_tag_as_we_know(attribute):
    at_tag, derived = (_fields(source(attribute)) for source in (message_schemas.at_tag, message_schemas.derived))
    for ours in message_schemas.OURS:
        derived.pop(ours, None)
    if attribute != TOOLS:
        del derived["compaction"]
        derived["blob"][1].remove("byte_size")
    if attribute == OUTPUT:
        at_tag["message"][0].remove("finish_reason")
        at_tag["message"][1].add("finish_reason")

    assert derived == at_tag
