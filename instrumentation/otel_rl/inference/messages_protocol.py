"""Answers of Anthropic's Messages protocol, in the form of OpenAI's chat, which all else reads.

Anthropic counts tokens read from a cache or written to it beside the input; the conventions count them as input. Its
streams repeat the usage so far, so the last count holds, and begin with a placeholder for the output tokens.
"""

from __future__ import annotations

from typing import Any

from otel_rl.inference.answers import Answer
from otel_rl.inference.failures import of_answer
from otel_rl.inference.fields import NOTHING, all_fields_of, count_of, fields_of, items_of, text_of

#: Reason of the protocol -> that of OpenAI.
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    # Bedrock's.
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
}
#: ``error.type`` of an event with an error that has no type.
_ERROR = "stream_error"


class MessagesAnswer(Answer):
    """Facts of a message, or of the events of one."""

    def __init__(self, captures: bool = False) -> None:
        super().__init__(captures)
        #: The usage so far, with the names of the protocol.
        self._counts: dict[str, Any] = {}

    def observe(self, answer: Any) -> None:
        """Take the facts of a complete message, or of an error in its place."""
        fields = all_fields_of(answer)
        blocks = list(map(fields_of, items_of(fields.get("content"))))
        reason = reason_of(fields.get("stop_reason"))
        choices = [{"message": message_of(blocks), "finish_reason": reason}] if blocks or reason else None
        super().observe({**{name: fields.get(name) for name in ("id", "model", "error")}, "choices": choices})
        self._add_usage(fields.get("usage"))

    def observe_chunk(self, chunk: Any) -> None:
        """Take the facts of one event."""
        event = fields_of(chunk)
        kind = event.get("type")
        if kind == "content_block_delta":
            delta = fields_of(event.get("delta"))
            if self._content is None and "text" in delta:
                # Most events are a piece of text and nothing else.
                self.output_chunks += 1
                return
            self._observe_delta(_delta(event, delta))
        elif kind == "content_block_start":
            block = fields_of(event.get("content_block"))
            if block.get("type") == "tool_use":
                self._observe_delta({"tool_calls": [{**_tool_call(block, ""), "index": event.get("index")}]})
        elif kind == "message_start":
            message = all_fields_of(event.get("message"))
            counts = {
                name: value for name, value in all_fields_of(message.get("usage")).items() if "output" not in name
            }
            super().observe_chunk({**message, "choices": [], "usage": None})
            self._add_usage(counts)
        elif kind == "message_delta":
            reason = reason_of(fields_of(event.get("delta")).get("stop_reason"))
            self._observe_delta({}, reason)
            self._add_usage(event.get("usage"))
            # Some programs (LiteLLM) read no further: the event that stops the message has nothing more.
            self.is_complete = reason is not None
        elif kind == "error":
            self.failure = of_answer(event, NOTHING, _ERROR) or _ERROR

    def _observe_delta(self, delta: dict[str, Any], reason: str | None = None) -> None:
        super().observe_chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def _add_usage(self, given: Any) -> None:
        counts = self._counts
        counts.update({name: value for name, value in all_fields_of(given).items() if value is not None})
        inputs, read = count_of(counts.get("input_tokens")), count_of(counts.get("cache_read_input_tokens"))
        written = count_of(counts.get("cache_creation_input_tokens"))
        total = None if inputs is None else inputs + (read or 0) + (written or 0)
        thoughts = fields_of(counts.get("output_tokens_details")).get("thinking_tokens")
        self.count(total, counts.get("output_tokens"), read, written, thoughts)


def reason_of(given: Any) -> str | None:
    """Return a reason as OpenAI names it, or as it is."""
    reason = text_of(given)
    return reason and _REASONS.get(reason, reason)


def tool_use(identifier: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """Return the block of a call that an answer asks for."""
    return {"type": "tool_use", "id": identifier, "name": name, "input": arguments}


def tool_result(identifier: Any, content: Any, *, failed: bool) -> dict[str, Any]:
    """Return the block of a result."""
    return {"type": "tool_result", "tool_use_id": identifier, "content": content, "is_error": failed}


def message_of(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the blocks of an answer as a message of OpenAI's."""
    tools = [_tool_call(block) for block in blocks if block.get("type") == "tool_use"]
    return {"content": [block for block in blocks if block.get("type") != "tool_use"], "tool_calls": tools}


def _tool_call(block: dict[str, Any], arguments: Any = None) -> dict[str, Any]:
    given = block.get("input") if arguments is None else arguments
    return {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": given}}


def _delta(event: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """Return a piece of a block as OpenAI sends it."""
    if "partial_json" in delta:
        return {"tool_calls": [{"index": event.get("index"), "function": {"arguments": delta["partial_json"]}}]}
    return {"content": delta.get("text"), "reasoning": delta.get("thinking")}
