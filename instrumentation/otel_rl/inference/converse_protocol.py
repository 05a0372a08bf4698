"""Requests and answers of Bedrock's Converse in the form of Anthropic's Messages, which has the same parts."""

from __future__ import annotations

from typing import Any

from otel_rl.inference.fields import fields_of, items_of, text_of
from otel_rl.inference.http.bodies import parsed
from otel_rl.inference.messages_protocol import MessagesAnswer, tool_result, tool_use

_PARAMETERS = {"maxTokens": "max_tokens", "temperature": "temperature", "topP": "top_p", "stopSequences": "stop"}
_COUNTS = {
    "input_tokens": ("inputTokens", "x-amzn-bedrock-input-token-count"),
    "output_tokens": ("outputTokens", "x-amzn-bedrock-output-token-count"),
    "cache_read_input_tokens": ("cacheReadInputTokens", "x-amzn-bedrock-cache-read-input-token-count"),
    "cache_creation_input_tokens": ("cacheWriteInputTokens", "x-amzn-bedrock-cache-write-input-token-count"),
}


def as_messages_request(request: Any) -> dict[str, Any]:
    """Return the body of a request; of InvokeModel, whose body is the model's own, what has the same names."""
    fields = fields_of(request)
    given = fields_of(fields.get("inferenceConfig"))
    messages = map(fields_of, items_of(fields.get("messages")))
    tools = map(fields_of, items_of(fields_of(fields.get("toolConfig")).get("tools")))
    specified = (fields_of(tool.get("toolSpec")) for tool in tools)
    return {
        **fields,
        **{name: given[key] for key, name in _PARAMETERS.items() if key in given},
        "messages": [{**message, "content": _blocks(message.get("content"))} for message in messages],
        "system": _blocks(fields.get("system")),
        "tools": [{**tool, "parameters": fields_of(tool.get("inputSchema")).get("json")} for tool in specified],
    }


def _blocks(content: Any) -> Any:
    return content if isinstance(content, str) else [_block(fields_of(block)) for block in items_of(content)]


def _block(block: dict[str, Any]) -> dict[str, Any]:
    called, returned = fields_of(block.get("toolUse")), fields_of(block.get("toolResult"))
    if called:
        return tool_use(called.get("toolUseId"), called.get("name"), called.get("input"))
    if returned:
        content, failed = _blocks(returned.get("content")), returned.get("status") == "error"
        return tool_result(returned.get("toolUseId"), content, failed=failed)
    reasoning = fields_of(fields_of(block.get("reasoningContent")).get("reasoningText"))
    if reasoning:
        return {"type": "thinking", "thinking": reasoning.get("text")}
    if isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    # InvokeModel of Anthropic's models has these blocks; of others the kind is recorded.
    return block if "type" in block else {"type": next(iter(block), "")}


class ConverseAnswer(MessagesAnswer):
    """Facts of an answer, or of the events of one as ``botocore`` splits them."""

    def observe(self, answer: Any) -> None:
        """Take the facts of a complete answer."""
        fields = fields_of(answer)
        metadata = fields_of(fields.get("ResponseMetadata"))
        self.response_id = text_of(metadata.get("RequestId"))
        content = fields_of(fields_of(fields.get("output")).get("message")).get("content")
        usage = _counts(fields_of(fields.get("usage")) or fields_of(metadata.get("HTTPHeaders")))
        super().observe({"content": _blocks(content), "stop_reason": fields.get("stopReason"), "usage": usage})

    def observe_chunk(self, chunk: Any) -> None:
        """Take the facts of one event."""
        kind, event = chunk.headers.get(":event-type"), fields_of(parsed(chunk.payload))
        index = event.get("contentBlockIndex")
        if kind == "contentBlockStart":
            block = _block(fields_of(event.get("start")))
            super().observe_chunk({"type": "content_block_start", "index": index, "content_block": block})
        elif kind == "contentBlockDelta":
            given = fields_of(event.get("delta"))
            called, reasoning = fields_of(given.get("toolUse")), fields_of(given.get("reasoningContent"))
            delta = {"partial_json": called.get("input")} if called else {"thinking": reasoning.get("text")}
            delta = given if "text" in given else delta
            super().observe_chunk({"type": "content_block_delta", "index": index, "delta": delta})
        elif kind in ("messageStop", "metadata"):
            usage = _counts(fields_of(event.get("usage")))
            delta = {"stop_reason": event.get("stopReason")}
            super().observe_chunk({"type": "message_delta", "delta": delta, "usage": usage})
        elif ":exception-type" in chunk.headers:
            self.failure = str(chunk.headers[":exception-type"])


def _counts(given: dict[str, Any]) -> dict[str, Any]:
    """Return counts of the usage, or of the head of the answer."""
    known = {name: given.get(field, given.get(header)) for name, (field, header) in _COUNTS.items()}
    return {name: int(str(count)) if str(count).isdecimal() else None for name, count in known.items()}
