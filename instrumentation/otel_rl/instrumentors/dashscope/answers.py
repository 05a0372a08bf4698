"""Answers and chunks of Model Studio in the form of OpenAI's chat completions, which all else reads.

A stream is incremental, or each chunk repeats the whole answer so far. While it goes on, its finish reason is the text
"null". A failed request is an answer with another status than 200, and raises nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.inference import failures
from otel_rl.inference.answers import Answer
from otel_rl.inference.fields import fields_of, items_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNFINISHED = "null"


def as_chat_message(message: Any) -> dict[str, Any]:
    """Return a message whose parts have a type as OpenAI's have; the first key of these names it."""
    fields = fields_of(message)
    parts = fields.get("content")
    return {**fields, "content": [_part(part) for part in parts]} if isinstance(parts, list) else fields


class DashScopeAnswer(Answer):
    """Facts of an answer; ``is_incremental`` as the request asks for, None if it leaves that to the model."""

    def __init__(self, is_incremental: bool | None, captures: bool = False) -> None:
        super().__init__(captures)
        self._is_incremental = is_incremental
        #: The first text of a stream.
        self._beginning: str | None = None

    def observe(self, answer: Any) -> None:
        """Take the facts of a complete answer."""
        fields = fields_of(answer)
        if fields:
            super().observe(_completion(fields, "message"))
            self._observe_failure(fields)

    def observe_chunk(self, chunk: Any) -> None:
        """Take the facts of one chunk of a stream."""
        fields = fields_of(chunk)
        completion = _completion(fields, "delta")
        said = "".join(map(_said, completion["choices"]))
        if self._is_incremental is None and said:
            # The default is the model's: the second text begins with the first, or it goes on.
            self._is_incremental = None if self._beginning is None else not said.startswith(self._beginning)
            self._beginning = said
        if self._is_incremental is False:
            # It repeats what the chunks before had.
            self._arguments, self.logprobs = None, 0
            self.observe(chunk)
            return
        super().observe_chunk(completion)
        self._observe_failure(fields)

    def _observe_failure(self, fields: Mapping[str, Any]) -> None:
        status = fields.get("status_code")
        if isinstance(status, int) and not 200 <= status < 300:  # noqa: PLR2004 - those of HTTP
            code = fields.get("code")
            # The client's code for a failure whose body it cannot read.
            self.failure = failures.name_of({"code": None if code == "Unknown" else code}, str(int(status)))


def _completion(fields: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return the answer as a completion; ``part`` is the name of a choice's message there."""
    output = fields_of(fields.get("output"))
    choices = [fields_of(choice) for choice in items_of(output.get("choices"))]
    if not choices and isinstance(output.get("text"), str):
        choices = [{**output, "message": {"role": "assistant", "content": output["text"]}}]
    return {
        "id": text_of(fields.get("request_id")),
        "choices": [_choice(choice, part) for choice in choices],
        "usage": _usage(fields_of(fields.get("usage"))),
    }


def _choice(choice: dict[str, Any], part: str) -> dict[str, Any]:
    reason, message = choice.get("finish_reason"), as_chat_message(choice.get("message"))
    if part == "delta" and isinstance(message.get("content"), list):
        message = {**message, "content": "".join(text_of(fields.get("text")) or "" for fields in message["content"])}
    return {
        "index": choice.get("index"),
        "logprobs": choice.get("logprobs"),
        part: message,
        "finish_reason": None if reason == _UNFINISHED else text_of(reason),
    }


def _said(choice: dict[str, Any]) -> str:
    """Return what a chunk says in a choice: its text, and the arguments of tools."""
    functions = (fields_of(fields_of(call).get("function")) for call in items_of(choice["delta"].get("tool_calls")))
    texts = (choice["delta"].get("content"), *(function.get("arguments") for function in functions))
    return "".join(filter(None, map(text_of, texts)))


def _usage(usage: dict[str, Any]) -> dict[str, Any] | None:
    """Return the counts under the names of OpenAI's responses; an embedding has a total only."""
    inputs = usage.get("input_tokens", usage.get("total_tokens"))
    details = usage.get("prompt_tokens_details")
    return {**usage, "input_tokens": inputs, "input_tokens_details": details} if usage else None


def _part(part: Any) -> dict[str, Any]:
    fields = fields_of(part)
    return {"type": next(iter(fields), None), **fields}
