"""Messages of requests and answers in the shape of the GenAI conventions; called only when the user wants content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.inference import message_parts as parts_of
from otel_rl.inference import shortening
from otel_rl.inference.fields import all_fields_of, fields_of, items_of, text_of
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from collections.abc import Callable

Message = dict[str, Any]

#: As the conventions name it, the reason of OpenAI that stands for a tool call.
_FINISH_REASONS = {"tool_calls": "tool_call", "function_call": "tool_call"}


def of_request(
    body: dict[str, Any], left: Callable[[list[Message]], list[Message]] = lambda messages: messages
) -> dict[str, str | None]:
    """Attributes with system instructions, tool definitions and, of the input messages, what ``left`` leaves."""
    values: dict[str, str | None] = {}
    messages = left(input_messages(body))
    if messages:
        values[attributes.GEN_AI_INPUT_MESSAGES] = shortening.messages_as_json(messages)
    instructions = _instructions(body.get("instructions") or body.get("system"))
    if instructions:
        values[attributes.GEN_AI_SYSTEM_INSTRUCTIONS] = shortening.parts_as_json(instructions)
    tools = [tool for tool in map(_tool, items_of(body.get("tools"))) if tool is not None]
    if tools:
        values[attributes.GEN_AI_TOOL_DEFINITIONS] = shortening.tools_as_json(tools)
    return values


def input_messages(body: dict[str, Any]) -> list[Message]:
    """Return the messages that a request of any endpoint sends."""
    if "messages" in body:
        return [_chat_message(all_fields_of(message)) for message in items_of(body["messages"])]
    if "input" in body:
        given = body["input"]
        return [_user(given)] if isinstance(given, str) else _of_items(given, "user")
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return [_user(prompt)]
    if prompt and all(isinstance(token, int) for token in items_of(prompt)):
        return [_tokens(prompt)]
    return [_user(item) if isinstance(item, str) else _tokens(item) for item in items_of(prompt)]


def output_messages(answer: dict[str, Any]) -> list[Message]:
    """Return the messages of a complete answer: one per choice, or the one of a response."""
    answers = []
    for choice in map(fields_of, items_of(answer.get("choices"))):
        message = choice.get("message")
        written = text_of(choice.get("text"))
        parts = [parts_of.text(written)] if written is not None else parts_of.of_message(all_fields_of(message))
        answers.append(answered(parts, choice.get("finish_reason")))
    if answer.get("output"):
        answers.append(of_output(answer["output"]))
    return answers


def of_output(items: Any, finish_reason: str | None = None) -> Message:
    """Return the message of a response: its items are parts of one message."""
    parts = [part for message in _of_items(items, "assistant") for part in message["parts"]]
    return answered(parts, finish_reason)


def answered(parts: list[parts_of.Part], finish_reason: Any) -> Message:
    """Return a message of the model; a stream that was not read to its end has no reason."""
    message: Message = {"role": "assistant", "parts": parts}
    reason = text_of(finish_reason)
    if reason is not None:
        message["finish_reason"] = _FINISH_REASONS.get(reason, reason)
    return message


def _user(content: str) -> Message:
    return {"role": "user", "parts": [parts_of.text(content)]}


def _tokens(ids: Any) -> Message:
    """Return a prompt of token ids, which are no text: their number."""
    return {"role": "user", "parts": [{"type": "token_ids", "count": len(items_of(ids))}]}


def _named(message: dict[str, Any], role: str, parts: list[parts_of.Part]) -> Message:
    name = text_of(message.get("name"))
    return {"role": role, "parts": parts} if name is None else {"role": role, "parts": parts, "name": name}


def _chat_message(message: dict[str, Any]) -> Message:
    role = text_of(message.get("role")) or "user"
    if role in ("tool", "function"):
        return _named(message, role, [parts_of.tool_response(message.get("tool_call_id"), message.get("content"))])
    return _named(message, role, parts_of.of_message(message))


def _of_items(items: Any, role: str) -> list[Message]:
    """Return the messages that items of the Responses endpoint stand for; ``role`` where an item names none."""
    messages = []
    for item in items_of(items):
        if isinstance(item, str):
            messages.append({"role": role, "parts": [parts_of.text(item)]})
            continue
        message = _of_item(fields_of(item), role)
        if message["parts"]:
            messages.append(message)
    return messages


def _of_item(item: dict[str, Any], role: str) -> Message:
    kind = text_of(item.get("type")) or "message"
    call_id = item.get("call_id")
    if kind == "message":
        return {"role": text_of(item.get("role")) or role, "parts": parts_of.of_content(item.get("content"))}
    if kind == "reasoning":
        texts = [*items_of(item.get("summary")), *items_of(item.get("content"))]
        contents = [text_of(fields_of(each).get("text")) for each in texts]
        return {"role": "assistant", "parts": [parts_of.reasoning(each) for each in contents if each is not None]}
    if kind.endswith("_output") and call_id is not None:
        return {"role": "tool", "parts": [parts_of.tool_response(call_id, item.get("output"))]}
    if kind.endswith("_call"):
        return {"role": "assistant", "parts": [_item_call(kind.removesuffix("_call"), item)]}
    if kind == "compaction":
        return {"role": "assistant", "parts": [{"type": kind}]}
    known = parts_of.of_content([item])
    return {"role": role, "parts": known}


def _item_call(kind: str, item: dict[str, Any]) -> parts_of.Part:
    """Return a call of a tool that the program runs, or of one that the provider runs itself."""
    name = text_of(item.get("name"))
    if item.get("call_id") is not None:
        arguments = item.get("arguments", item.get("input", item.get("action")))
        return parts_of.tool_call(item["call_id"], name or kind, arguments)
    details = {key: value for key, value in item.items() if key not in ("id", "status") and value is not None}
    part = {"type": "server_tool_call", "name": name or kind, "server_tool_call": {**details, "type": kind}}
    identifier = text_of(item.get("id"))
    return part if identifier is None else {**part, "id": identifier}


def _instructions(given: Any) -> list[parts_of.Part]:
    if isinstance(given, str):
        return [parts_of.text(given)] if given else []
    return [part for message in _of_items(given, "system") for part in message["parts"]]


def _tool(tool: Any) -> dict[str, Any] | None:
    """Return a tool offered to the model. Chat nests the description of a function, Responses and Messages do not."""
    fields = fields_of(tool)
    kind = text_of(fields.get("type")) or (text_of(fields.get("name")) and "function")
    if kind is None:
        return None
    described = fields_of(fields.get(kind)) or fields
    name = text_of(described.get("name")) or text_of(described.get("server_label")) or kind
    definition: dict[str, Any] = {"type": kind, "name": name}
    if text_of(described.get("description")):
        definition["description"] = described["description"]
    parameters = described.get("parameters", described.get("input_schema"))
    if isinstance(parameters, dict):
        definition["parameters"] = parameters
    return definition
