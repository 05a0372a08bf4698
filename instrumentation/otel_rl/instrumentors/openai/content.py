"""Prompts and completions in the shape of the GenAI conventions; called only when the user wants content."""

from __future__ import annotations

from typing import Any

from otel_rl.semconv import attributes
from otel_rl.telemetry.content import content_as_json


def of_request(body: dict[str, Any]) -> dict[str, str]:
    """Input messages, system instructions and tool definitions of a request body."""
    prompt = body.get("messages", body.get("input", body.get("prompt")))
    found = {}
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


def of_response(response: Any, read: Any) -> str | None:
    """Output messages of a complete answer as JSON; ``read(object, name)`` reads a model or a dictionary."""
    messages = []
    for choice in read(response, "choices") or ():
        message = read(choice, "message")
        parts = [_text(read(choice, "text"))] if message is None else _answer_parts(message, read)
        messages.append({"role": "assistant", "parts": parts, "finish_reason": read(choice, "finish_reason")})
    for item in read(response, "output") or ():
        parts = [_text(read(part, "text")) for part in read(item, "content") or ()]
        messages.append({"role": "assistant", "parts": parts})
    return content_as_json(messages) if messages else None


def of_stream(text: str, finish_reasons: list[str]) -> str:
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


def _answer_parts(message: Any, read: Any) -> list[dict[str, object]]:
    text = read(message, "content")
    parts = [] if text is None else [_text(text)]
    for call in read(message, "tool_calls") or ():
        function = read(call, "function")
        parts.append(_tool_call(read(call, "id"), read(function, "name"), read(function, "arguments")))
    return parts


def _tool_call(identifier: object, name: object, arguments: object) -> dict[str, object]:
    return {"type": "tool_call", "id": identifier, "name": name, "arguments": arguments}
