"""Checks captured content against the message types of the GenAI conventions.

The types are those of ``opentelemetry-util-genai`` in the version of ``tests/constraints``, whose release pins the
conventions to one commit: the conventions' repository has no tags. A part must be of a kind that is listed there; the
schema's own catch-all, any object with a ``type``, would accept everything.
"""

from __future__ import annotations

import base64
import json
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from opentelemetry.util.genai import types
from pydantic import TypeAdapter

_PARTS = (
    types.TextPart,
    types.ReasoningPart,
    types.ToolCallRequestPart,
    types.ToolCallResponsePart,
    types.ServerToolCallPart,
    types.ServerToolCallResponsePart,
    types.BlobPart,
    types.FilePart,
    types.UriPart,
    types.CompactionPart,
)
KINDS = {next(field.default for field in fields(kind) if field.name == "type"): kind for kind in _PARTS}
#: Kinds of our own; the conventions leave them open, and what they may hold.
OURS = {"omitted": {"count"}, "token_ids": {"count"}}


def check_messages(captured: str, output: bool = False) -> list[dict[str, Any]]:
    """The messages of an attribute's value; fails where one is not of the conventions' shape."""
    messages = json.loads(captured)
    assert isinstance(messages, list)
    for message in messages:
        allowed = {"role", "parts", "name"} | ({"finish_reason"} if output else set())
        assert message.keys() <= allowed, message
        assert isinstance(message["role"], str)
        assert isinstance(message.get("name", ""), str)
        assert isinstance(message.get("finish_reason", ""), str)
        check_parts(message["parts"])
    return messages


def check_parts(parts: list[dict[str, Any]]) -> None:
    """Fail where a part is not of the conventions' shape."""
    assert isinstance(parts, list)
    for part in parts:
        kind = part["type"]
        if kind in OURS:
            assert part.keys() <= {"type"} | OURS[kind], part
            continue
        assert kind in KINDS, part
        _check(KINDS[kind], part)


def check_tools(captured: str) -> list[dict[str, Any]]:
    """The tool definitions of an attribute's value."""
    tools = json.loads(captured)
    for tool in tools:
        _check(types.FunctionToolDefinition if tool["type"] == "function" else types.GenericToolDefinition, tool)
    return tools


def _check(kind: type, value: dict[str, Any]) -> None:
    hints = get_type_hints(kind)
    # The types have to be given every field that may be null; the schemas require none of these.
    optional = {
        f.name for f in fields(kind) if f.default is MISSING and (hints[f.name] is Any or _takes_none(hints[f.name]))
    }
    assert value.keys() <= {field.name for field in fields(kind)} | {"byte_size"}, value
    filled = {**dict.fromkeys(optional), **{key: item for key, item in value.items() if key != "byte_size"}}
    TypeAdapter(kind).validate_json(json.dumps(filled), strict=True)
    if kind is types.ToolCallResponsePart:
        assert "response" in value
    if kind is types.BlobPart:
        base64.b64decode(value["content"], validate=True)


def _takes_none(hint: Any) -> bool:
    return type(None) in getattr(hint, "__args__", ())
