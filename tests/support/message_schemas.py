"""JSON Schemas of captured content, from two sources.

* ``derived``: pydantic makes them of the message types of ``opentelemetry-util-genai``, in the version of
  ``tests/constraints``. That package pins the GenAI conventions to one commit: their repository has no tags.
* ``published``: the files of the tag ``TAG`` of https://github.com/open-telemetry/semantic-conventions (Apache-2.0).
  It is the last tag that has them. A checkout that ``OTEL_RL_SEMANTIC_CONVENTIONS`` names holds them; they are not
  copied into this repository. Without a checkout only the first source is there.

Both let any object with a type pass as a part. Here a part is of a kind that they describe, or one of ``OURS``.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
from typing import Any

from opentelemetry.util.genai import types
from pydantic import TypeAdapter

CHECKOUT = os.environ.get("OTEL_RL_SEMANTIC_CONVENTIONS")
TAG = "v1.41.1"
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
INSTRUCTIONS, TOOLS = "gen_ai.system_instructions", "gen_ai.tool.definitions"

Schema = dict[str, Any]

#: Attribute -> file in the checkout, and its SHA-256 at the tag.
FILES = {
    INPUT: ("gen-ai-input-messages.json", "c1fddd81ea2b3cd547f74407f1267658f400f5c608772ab2fc4d9a5b3d16297f"),
    OUTPUT: ("gen-ai-output-messages.json", "1de96f5387186cc9d0b8b075d82eb6240435c404de6cfc5ce7f681c7e821d68b"),
    INSTRUCTIONS: (
        "gen-ai-system-instructions.json",
        "12b8d863bb3bfe9930035dc7feb3ab8350cebd1e3821494bb4d00ce0439960d0",
    ),
    TOOLS: ("gen-ai-tool-definitions.json", "023501e9835139703d4b475c86d3d6b6b11dee2ccc08ea6c8ab48d173b89aa80"),
}
#: Kinds of parts of our own, which the conventions leave open.
OURS = {
    name: {
        "properties": {"type": {"const": name}, "count": {"type": "integer"}},
        "required": ["type", "count"],
        "additionalProperties": False,
    }
    for name in ("omitted", "token_ids")
}

_TYPES: dict[str, Any] = {
    INPUT: list[types.InputMessage],
    OUTPUT: list[types.OutputMessage],
    INSTRUCTIONS: list[types.SystemInstructionPart],
    TOOLS: list[types.ToolDefinition],
}
#: Fields of any type that the schemas do not require, though the types have no default for them.
_OPTIONAL = {"arguments", "parameters"}
#: Of our own, the size of data that was left out; and what the types leave to a comment, a JSON Schema.
_MORE_EXACT = {
    "BlobPart": {"byte_size": {"type": "integer"}},
    "FunctionToolDefinition": {"parameters": {"type": ["object", "boolean", "null"]}},
}
#: Definitions that the conventions have gained since ``TAG``, and what they no longer require: the reason of a message
#: whose stream was closed before its end.
NEWER = {"CompactionPart"}
NO_LONGER_REQUIRED = {"OutputMessage": "finish_reason"}

_ANY_PART, _ANY_TOOL = "GenericPart", "GenericToolDefinition"


@functools.cache
def derived(attribute: str) -> Schema:
    """The schema of the value of ``attribute`` that the installed types stand for."""
    schema = TypeAdapter(_TYPES[attribute]).json_schema()
    for definition in schema["$defs"].values():
        if "properties" in definition:
            _as_published(definition)
    for name, fields in _MORE_EXACT.items():
        schema["$defs"].get(name, {"properties": {}})["properties"].update(fields)
    return _closed(schema)


def _as_published(definition: Schema) -> None:
    """As the published schemas have it: a field that may be null may be left out. Unknown fields are refused."""
    fields = definition["properties"]
    named = [name for name in definition.get("required", []) if name not in _OPTIONAL and not _takes_null(fields[name])]
    kind = ["type"] if "const" in fields.get("type", {}) else []
    definition["required"] = [*kind, *named]
    definition["additionalProperties"] = False


def _takes_null(field: Schema) -> bool:
    return {"type": "null"} in field.get("anyOf", ())


@functools.cache
def published(attribute: str) -> Schema | None:
    """The schema of the value of ``attribute`` at ``TAG``; None without a checkout."""
    schema = at_tag(attribute)
    if schema is None:
        return None
    definitions = derived(attribute)["$defs"]
    schema["$defs"].update({name: definitions[name] for name in NEWER & definitions.keys()})
    for name, field in NO_LONGER_REQUIRED.items():
        if name in schema["$defs"]:
            schema["$defs"][name]["required"].remove(field)
    return _closed(schema)


def at_tag(attribute: str) -> Schema | None:
    """The schema of the tag, unchanged; None without a checkout."""
    if not CHECKOUT:
        return None
    name, digest = FILES[attribute]
    command = ["git", "-C", CHECKOUT, "show", f"{TAG}:docs/gen-ai/{name}"]
    content = subprocess.run(command, capture_output=True, check=True).stdout
    assert hashlib.sha256(content).hexdigest() == digest, name
    return json.loads(content)


def _closed(schema: Schema) -> Schema:
    """``schema`` where every part is of a kind it describes, or of ours; a function tool is described as such."""
    definitions = schema["$defs"]
    if _ANY_TOOL in definitions:
        definitions[_ANY_TOOL]["properties"]["type"]["not"] = {"const": "function"}
        definitions[_ANY_TOOL]["additionalProperties"] = False
        return schema
    definitions.update(OURS)
    _replace_any_part(schema, definitions)
    return schema


def _replace_any_part(node: Any, definitions: Schema) -> None:
    if isinstance(node, dict):
        kinds = node.get("anyOf", [])
        if {"$ref": f"#/$defs/{_ANY_PART}"} in kinds:
            kinds.remove({"$ref": f"#/$defs/{_ANY_PART}"})
            kinds += [{"$ref": f"#/$defs/{name}"} for name in definitions if name in OURS or name in NEWER]
        for inner in node.values():
            _replace_any_part(inner, definitions)
    elif isinstance(node, list):
        for inner in node:
            _replace_any_part(inner, definitions)
