"""Prompt and completion of a trainer's sample as the messages of a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.inference import messages, shortening
from otel_rl.inference.fields import all_fields_of
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from otel_rl.inference.messages import Message


def attributes_of(prompt: Any, completion: Any, stop_reason: str | None) -> dict[str, str | None]:
    """Return attributes with the conversation, each a text or a list of messages.

    Its last message is what the model said, unless a tool's answer is.
    """
    said = _messages(prompt, "user") + _messages(completion, "assistant")
    answer = [said.pop()] if said and said[-1]["role"] == "assistant" else []
    if answer and stop_reason is not None:
        answer[0]["finish_reason"] = stop_reason
    messages = {attributes.GEN_AI_INPUT_MESSAGES: said, attributes.GEN_AI_OUTPUT_MESSAGES: answer}
    return {name: shortening.messages_as_json(given) for name, given in messages.items() if given}


def _messages(given: Any, role: str) -> list[Message]:
    if isinstance(given, str):
        return [{**message, "role": role} for message in messages.input_messages({"prompt": given})]
    return messages.input_messages({"messages": [all_fields_of(message) for message in given]})
