"""Checks captured content against the message schemas of the GenAI conventions, see ``message_schemas``."""

from __future__ import annotations

import base64
import functools
import json
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from support import message_schemas
from support.message_schemas import INPUT, INSTRUCTIONS, OUTPUT, TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping


def check_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the attributes that hold content; fails where one is not of the conventions' shape."""
    return {name: check(attributes[name], name) for name in message_schemas.FILES if name in attributes}


def check_messages(captured: str, output: bool = False) -> list[dict[str, Any]]:
    """The messages of an attribute's value; fails where one is not of the conventions' shape."""
    return check(captured, OUTPUT if output else INPUT)


def check_instructions(captured: str) -> list[dict[str, Any]]:
    """The parts of the system instructions."""
    return check(captured, INSTRUCTIONS)


def check_tools(captured: str) -> list[dict[str, Any]]:
    """The tool definitions of an attribute's value."""
    return check(captured, TOOLS)


def check(captured: str, attribute: str) -> Any:
    """The value of ``attribute``; fails where a schema refuses it."""
    value = json.loads(captured)
    for validator in _validators(attribute):
        error = best_match(validator.iter_errors(value))
        assert error is None, f"{error.json_path}: {error.message}"
    if attribute in (INPUT, OUTPUT):
        _check_blobs(value)
    return value


def _check_blobs(messages: list[dict[str, Any]]) -> None:
    """The schemas only say that the content is a text."""
    for part in (part for message in messages for part in message["parts"]):
        if part["type"] == "blob":
            base64.b64decode(part["content"], validate=True)


@functools.cache
def _validators(attribute: str) -> list[Draft202012Validator]:
    schemas = (message_schemas.derived(attribute), message_schemas.published(attribute))
    return [Draft202012Validator(schema) for schema in schemas if schema is not None]
