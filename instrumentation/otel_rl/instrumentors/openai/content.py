"""Prompts and completions in the shape of the GenAI conventions; called only when the user wants content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes
from otel_rl.telemetry.content_capture import content_as_json

if TYPE_CHECKING:
    from collections.abc import Callable


def of_request(body: dict[str, Any]) -> dict[str, str | None]:
    """Input messages, system instructions and tool definitions of a request body."""
    prompt = body.get("messages", body.get("input", body.get("prompt")))
    found: dict[str, str | None] = {}
    if prompt is not None:
        messages = prompt if isinstance(prompt, list) and all(isinstance(item, dict) for item in prompt) else None
        found[attributes.GEN_AI_INPUT_MESSAGES] = content_as_json(
            [_message(item) for item in messages]
            if messages is not None
            else [{"role": "user", "parts": [_text(prompt)]}]
        )
    if body.get("instructions"):
        found[attributes.GEN_AI_SYSTEM_INSTRUCTIONS] = content_as_json([_text(body["instructions"])])
    if body.get("tools"):
        found[attributes.GEN_AI_TOOL_DEFINITIONS] = content_as_json(body["tools"])
    return found


def of_response(response: dict[str, Any], fields_of: Callable[[Any], dict[str, Any]]) -> str | None:
    """Output messages of a complete answer as JSON; ``fields_of`` gives the fields of a model or a dictionary."""
    messages: list[dict[str, object]] = []
    for choice in map(fields_of, response.get("choices") or ()):
        message = choice.get("message")
        parts = [_text(choice.get("text"))] if message is None else _answer_parts(fields_of(message), fields_of)
        messages.append({"role": "assistant", "parts": parts, "finish_reason": choice.get("finish_reason")})
    for item in map(fields_of, response.get("output") or ()):
        parts = [_text(part.get("text")) for part in map(fields_of, item.get("content") or ())]
        messages.append({"role": "assistant", "parts": parts})
    return content_as_json(messages) if messages else None


def of_stream(text: str, finish_reasons: list[str]) -> str | None:
    """Output message of a stream whose text has been collected."""
    reason = finish_reasons[0] if finish_reasons else None
    return content_as_json([{"role": "assistant", "parts": [_text(text)], "finish_reason": reason}])


def _text(value: object) -> dict[str, object]:
    return {"type": "text", "content": value}


def _message(message: dict[str, Any]) -> dict[str, object]:
    role = message.get("role", "user")
    if role == "tool":
        part = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": message.get("content")}
        return {"role": role, "parts": [part]}
    parts = [] if message.get("content") is None else [_text(message["content"])]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        parts.append(_tool_call(call.get("id"), function.get("name"), function.get("arguments")))
    return {"role": role, "parts": parts}


def _answer_parts(message: dict[str, Any], fields_of: Callable[[Any], dict[str, Any]]) -> list[dict[str, object]]:
    text = message.get("content")
    parts = [] if text is None else [_text(text)]
    for call in map(fields_of, message.get("tool_calls") or ()):
        function = fields_of(call.get("function"))
        parts.append(_tool_call(call.get("id"), function.get("name"), function.get("arguments")))
    return parts


def _tool_call(identifier: object, name: object, arguments: object) -> dict[str, object]:
    return {"type": "tool_call", "id": identifier, "name": name, "arguments": arguments}
