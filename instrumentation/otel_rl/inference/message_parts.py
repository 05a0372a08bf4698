"""Parts of messages in the shape of the GenAI conventions, from the parts of the protocols of OpenAI and Anthropic.

The shapes are those of ``gen-ai-input-messages.json`` and ``gen-ai-output-messages.json`` in
https://github.com/open-telemetry/semantic-conventions-genai, as ``opentelemetry.util.genai.types`` has them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from otel_rl.inference.fields import fields_of, items_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

Part = dict[str, Any]

#: Longest arguments that are decoded, in characters; longer ones stay text, which can be cut.
_LONGEST_DECODED = 8192
#: Kinds of parts that are text, with the field that holds it.
_TEXTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "summary_text": "text",
    "refusal": "refusal",
}
_REASONING = {"reasoning_text": "text", "reasoning": "reasoning", "thinking": "thinking"}
#: Kinds of the conventions that need fields, which parts of the protocol that are named so do not have.
_WITH_FIELDS = frozenset(
    {"blob", "file", "uri", "tool_call", "tool_call_response", "server_tool_call", "server_tool_call_response"}
)
#: Registered media types of the formats that the protocol names.
_AUDIO_TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav"}


def text(content: str) -> Part:
    """Text sent to or received from the model."""
    return {"type": "text", "content": content}


def reasoning(content: str) -> Part:
    """Reasoning received from the model."""
    return {"type": "reasoning", "content": content}


def tool_call(identifier: Any, name: Any, arguments: Any) -> Part:
    """Return a tool call that the model asks for; its arguments decoded where they are valid JSON."""
    return _without_none(
        {
            "type": "tool_call",
            "id": text_of(identifier),
            "name": text_of(name) or "",
            "arguments": decoded_arguments(arguments),
        }
    )


def tool_response(identifier: Any, response: Any) -> Part:
    """Return the result of a tool call, sent to the model."""
    return {**_without_none({"type": "tool_call_response", "id": text_of(identifier)}), "response": response}


def of_content(content: Any) -> list[Part]:
    """Return the parts of a message's ``content``: a text, or a list of parts of any kind."""
    if isinstance(content, str):
        return [text(content)]
    return [part for part in map(_part, items_of(content)) if part is not None]


def of_call(call: Any) -> Part:
    """Return a tool call of a chat message: a function's, or one of a custom tool."""
    fields = fields_of(call)
    function = fields_of(fields.get("function"))
    if function:
        return tool_call(fields.get("id"), function.get("name"), function.get("arguments"))
    custom = fields_of(fields.get("custom"))
    return tool_call(fields.get("id"), custom.get("name"), custom.get("input"))


def of_message(message: dict[str, Any]) -> list[Part]:
    """All parts of a chat message, of a request or of an answer."""
    parts = []
    # vLLM names it `reasoning`, SGLang and older servers `reasoning_content`.
    thought = text_of(message.get("reasoning")) or text_of(message.get("reasoning_content"))
    if thought is not None:
        parts.append(reasoning(thought))
    parts += of_content(message.get("content"))
    refusal = text_of(message.get("refusal"))
    if refusal is not None:
        parts.append(text(refusal))
    parts += map(of_call, items_of(message.get("tool_calls")))
    if message.get("function_call"):
        parts.append(of_call({"function": message["function_call"]}))
    transcript = text_of(fields_of(message.get("audio")).get("transcript"))
    if transcript is not None:
        parts.append(text(transcript))
    return parts


def _part(item: Any) -> Part | None:
    if isinstance(item, str):
        return text(item)
    fields = fields_of(item)
    kind = str(fields.get("type"))
    if kind in _TEXTS or kind in _REASONING:
        content = fields.get(_TEXTS.get(kind) or _REASONING[kind])
        if not isinstance(content, str):
            return None
        return text(content) if kind in _TEXTS else reasoning(content)
    make = _MADE_OF.get(kind)
    if make is not None:
        return make(fields)
    # Of a kind that the conventions do not have the kind is recorded.
    return {"type": kind} if text_of(fields.get("type")) and kind not in _WITH_FIELDS else None


def _audio(fields: dict[str, Any]) -> Part | None:
    described = fields_of(fields.get("input_audio"))
    data = described.get("data")
    if not isinstance(data, str):
        return None
    return _blob("audio", _AUDIO_TYPES.get(str(described.get("format"))), data)


def _document(fields: dict[str, Any]) -> Part | None:
    # Chat nests the description, Responses does not.
    described = fields_of(fields.get("file")) or fields
    return _media("document", described, described.get("file_url"), described.get("file_data"))


def _linked(kind: str, modality: str) -> Callable[[dict[str, Any]], Part | None]:
    return lambda fields: _media(modality, fields, fields.get(kind))


def _media(modality: str, fields: dict[str, Any], address: Any, data: Any = None) -> Part | None:
    """Return what a part refers to by file id or URL, or holds inline."""
    identifier = text_of(fields.get("file_id"))
    if identifier is not None:
        return {"type": "file", "modality": modality, "file_id": identifier}
    url = address if isinstance(address, str) else fields_of(address).get("url")
    content = text_of(url) or text_of(data)
    if content is None:
        return None
    if not content.startswith("data:"):
        return {"type": "uri", "modality": modality, "uri": content} if url else _blob(modality, None, content)
    head, _, payload = content.partition(",")
    return _blob(modality, head[len("data:") :].partition(";")[0] or None, payload)


def _blob(modality: str, mime_type: str | None, content: str) -> Part:
    return _without_none({"type": "blob", "modality": modality, "mime_type": mime_type, "content": content})


def _sourced(modality: str, fields: dict[str, Any]) -> Part | None:
    """Return the part of a block of Anthropic's, whose ``source`` holds its data or its URL."""
    source = fields_of(fields.get("source"))
    data = text_of(source.get("data"))
    if data is not None:
        return _blob(modality, text_of(source.get("media_type")), data)
    return _media(modality, source, source.get("url"))


def _tool_result(fields: dict[str, Any]) -> Part:
    content = fields.get("content")
    return tool_response(fields.get("tool_use_id"), of_content(content) if isinstance(content, list) else content)


_MADE_OF: dict[str, Callable[[dict[str, Any]], Part | None]] = {
    "tool_use": lambda fields: tool_call(fields.get("id"), fields.get("name"), fields.get("input")),
    "tool_result": _tool_result,
    "image": lambda fields: _sourced("image", fields),
    "document": lambda fields: _sourced("document", fields),
    **dict.fromkeys(("image_url", "input_image"), _linked("image_url", "image")),
    "input_audio": _audio,
    "file": _document,
    "input_file": _document,
    # Of vLLM and SGLang.
    "audio_url": _linked("audio_url", "audio"),
    "video_url": _linked("video_url", "video"),
}


def decoded_arguments(arguments: Any) -> Any:
    """Return the arguments of a tool call that a model has written as JSON; as they are if they cannot be decoded."""
    if not isinstance(arguments, str) or len(arguments) > _LONGEST_DECODED:
        return arguments
    try:
        return json.loads(arguments) if arguments else None
    except (ValueError, RecursionError):
        return arguments


def _without_none(part: Part) -> Part:
    return {key: value for key, value in part.items() if value is not None}
