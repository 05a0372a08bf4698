"""Requests and answers of Gemini in the forms that all else reads: blocks as Anthropic's, answers as OpenAI's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from otel_rl.inference.answers import Answer
from otel_rl.inference.fields import count_of, fields_of, items_of, text_of
from otel_rl.inference.http.bodies import parsed
from otel_rl.inference.messages_protocol import message_of, tool_result, tool_use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Parameter of Gemini -> as OpenAI names it.
_PARAMETERS = {
    "maxOutputTokens": "max_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "seed": "seed",
    "candidateCount": "n",
    "stopSequences": "stop",
    "frequencyPenalty": "frequency_penalty",
    "presencePenalty": "presence_penalty",
}
_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"), "content_filter"),
}
#: What only chunks have that are more than a piece of text.
_FACTS = ("finishReason", "functionCall", "blockReason")


def as_messages_request(request: Any) -> dict[str, Any]:
    """Return the body of a request, with blocks in its messages as Anthropic has them."""
    fields = fields_of(request)
    given = fields_of(fields.get("generationConfig"))
    declared = [each for tool in items_of(fields.get("tools")) for each in _declarations(fields_of(tool))]
    return {
        **{name: given[key] for key, name in _PARAMETERS.items() if key in given},
        "messages": [_message(fields_of(content)) for content in items_of(fields.get("contents"))],
        "system": _blocks(fields_of(fields.get("systemInstruction"))),
        "tools": declared,
    }


def _declarations(tool: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for function in map(fields_of, items_of(tool.get("functionDeclarations"))):
        yield {**function, "parameters": function.get("parameters") or function.get("parametersJsonSchema")}


def _message(content: Mapping[str, Any]) -> dict[str, Any]:
    role = text_of(content.get("role"))
    return {"role": "assistant" if role == "model" else role or "user", "content": _blocks(content)}


def _blocks(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    seen: dict[str, int] = {}
    return [_block(fields_of(part), seen) for part in items_of(content.get("parts"))]


def _block(part: Mapping[str, Any], seen: dict[str, int]) -> dict[str, Any]:
    called, returned = fields_of(part.get("functionCall")), fields_of(part.get("functionResponse"))
    if called:
        return tool_use(_identifier(called, seen), called.get("name"), called.get("args"))
    if returned:
        response = returned.get("response")
        return tool_result(_identifier(returned, seen), response, failed="error" in fields_of(response))
    data = fields_of(part.get("inlineData")) or fields_of(part.get("fileData"))
    if data:
        kind = "image" if str(data.get("mimeType")).startswith("image/") else "document"
        source = {"media_type": data.get("mimeType"), "data": data.get("data"), "url": data.get("fileUri")}
        return {"type": kind, "source": source}
    text = part.get("text")
    return {"type": "thinking", "thinking": text} if part.get("thought") else {"type": "text", "text": text}


def _identifier(call: Mapping[str, Any], seen: dict[str, int]) -> str:
    """Return the id of a call, or what stands for one: its name, and its place among those of the name."""
    name = str(call.get("name"))
    number = seen[name] = seen.get(name, 0) + 1
    return text_of(call.get("id")) or (name if number == 1 else f"{name} {number}")


class GeminiAnswer(Answer):
    """Facts of an answer, or of the chunks of one, of which the last count holds."""

    #: The last chunk with a piece of text only.
    _last: str | None = None

    def __init__(self, captures: bool = False) -> None:
        super().__init__(captures)
        self._seen: dict[str, int] = {}

    def observe(self, answer: Any) -> None:
        """Take the facts of a complete answer."""
        fields = fields_of(answer)
        choices = [
            {"index": index, "message": message_of(blocks), "finish_reason": reason}
            for index, blocks, reason in self._candidates(fields)
        ]
        super().observe({**self._head(fields), "choices": choices})

    def observe_chunk(self, chunk: Any) -> None:
        """Take the facts of one chunk, of ``google-genai`` or as bytes; a piece of text is counted only."""
        body = chunk.decode(errors="replace") if isinstance(chunk, bytes) else str(chunk.body)
        if self._content is None and not any(fact in body for fact in _FACTS):
            self._last = body
            self.output_chunks += 1
            return
        self._last = None
        fields = fields_of(parsed(body))
        choices = []
        for index, blocks, reason in self._candidates(fields):
            texts = ("".join(str(block.get(key)) for block in blocks if block.get(key)) for key in ("text", "thinking"))
            delta = {**message_of(blocks), "content": next(texts), "reasoning": next(texts)}
            for number, call in enumerate(delta["tool_calls"]):
                call |= {"index": len(self.tool_calls or ()) + number}
                call["function"]["arguments"] = json.dumps(call["function"]["arguments"], default=str)
            choices.append({"index": index, "delta": delta, "finish_reason": reason})
        super().observe_chunk({**self._head(fields), "choices": choices})

    def end(self) -> None:
        """Take the counts of the last chunk."""
        if self._last is not None:
            self._observe_head(self._head(fields_of(parsed(self._last))), {})

    def _candidates(self, fields: Mapping[str, Any]) -> Iterator[tuple[int, list[dict[str, Any]], str | None]]:
        blocked = fields_of(fields.get("promptFeedback")).get("blockReason")
        if blocked is not None:
            yield 0, [], "content_filter"
        for place, candidate in enumerate(map(fields_of, items_of(fields.get("candidates")))):
            given = text_of(candidate.get("finishReason"))
            parts = items_of(fields_of(candidate.get("content")).get("parts"))
            blocks = [_block(fields_of(part), self._seen) for part in parts]
            index = candidate.get("index")
            yield index if isinstance(index, int) else place, blocks, given and _REASONS.get(given, given.lower())

    def _head(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        counts = fields_of(fields.get("usageMetadata"))
        if counts:
            # Thoughts are output that candidates do not count, results of Gemini's own tools input beside the prompt.
            thoughts = counts.get("thoughtsTokenCount")
            inputs = _sum(counts.get("promptTokenCount"), counts.get("toolUsePromptTokenCount"))
            outputs = _sum(counts.get("candidatesTokenCount"), thoughts)
            self.count(inputs, outputs, counts.get("cachedContentTokenCount"), None, thoughts)
        return {"id": fields.get("responseId"), "model": fields.get("modelVersion"), "error": fields.get("error")}


def _sum(*counts: Any) -> int | None:
    known = [count for count in map(count_of, counts) if count is not None]
    return sum(known) if known else None
