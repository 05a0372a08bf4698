"""Reads tokens, finish reasons and server facts from a response; counts content, never keeps it."""

from __future__ import annotations

from typing import Any

from otel_rl.instrumentors.openai import content, provider
from otel_rl.semconv import attributes

#: Server-side times that vLLM reports per request, in ms.
_SERVER_TIMES = (
    ("queue_time_ms", attributes.RL_INFERENCE_SERVER_QUEUE_TIME),
    ("time_to_first_token_ms", attributes.RL_INFERENCE_SERVER_TIME_TO_FIRST_TOKEN),
    ("generation_time_ms", attributes.RL_INFERENCE_SERVER_GENERATION_TIME),
)
_RESPONSE_STATUS_REASONS = {"completed": "stop", "failed": "error", "cancelled": "error"}
_NOTHING: dict[str, Any] = {}


class Outcome:
    """Facts of one answer, from one parsed object or from the chunks of a stream."""

    __slots__ = (
        "cached_tokens",
        "collects_text",
        "finish_reasons",
        "input_tokens",
        "messages",
        "model",
        "output_chunks",
        "output_tokens",
        "provider",
        "reasoning_tokens",
        "response_id",
        "server_times",
        "text",
        "token_ids",
        "weight_version",
    )

    def __init__(self, collects_text: bool = False) -> None:
        self.collects_text = collects_text
        self.finish_reasons: list[str] = []
        self.text: list[str] = []
        self.server_times = _NOTHING
        self.output_chunks = self.token_ids = 0
        self.model: str | None = None
        self.response_id: str | None = None
        self.provider: str | None = None
        self.weight_version: str | None = None
        self.messages: str | None = None
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.reasoning_tokens: int | None = None

    def observe(self, response: Any) -> None:
        """Take the facts of a complete answer: a model of ``openai``, or the dictionary that a raw ``post`` returns."""
        fields = fields_of(response)
        self._observe_head(fields, _extra(response, fields))
        choices = fields.get("choices")
        if choices:
            for choice in choices:
                self._observe_choice(choice, fields_of(choice))
        elif isinstance(fields.get("status"), str):
            self._observe_status(fields, fields["status"])
        if self.collects_text:
            self.messages = content.of_response(fields, fields_of)

    def observe_chunk(self, chunk: Any) -> None:
        """Take the facts of one chunk of a stream: of a chat or text completion, or an event of a response."""
        fields = fields_of(chunk)
        choices = fields.get("choices")
        if choices is None:
            self._observe_event(fields)
            return
        # Servers put what they add on the first chunk, on the one with the finish reason, or on the one with the usage.
        if self.response_id is None or not choices or fields.get("usage") is not None:
            self._observe_head(fields, _extra(chunk, fields))
        for choice in choices:
            parts = fields_of(choice)
            if self._observe_choice(choice, parts):
                self._observe_server(fields, _extra(chunk, fields))
            delta = fields_of(parts.get("delta"))
            text = delta.get("content") or parts.get("text")
            if text or delta.get("tool_calls"):
                self.output_chunks += 1
                if self.collects_text and text:
                    self.text.append(text)

    def _observe_event(self, fields: dict[str, Any]) -> None:
        response = fields.get("response")
        if response is not None:
            self.observe(response)
        elif str(fields.get("type")).endswith(".delta"):
            self.output_chunks += 1

    def _observe_head(self, fields: dict[str, Any], extra: dict[str, Any]) -> None:
        self.model = fields.get("model") or self.model
        self.response_id = fields.get("id") or self.response_id
        usage = fields.get("usage")
        if usage is not None:
            self._observe_usage(fields_of(usage), _extra(usage, fields_of(usage)))
        self._observe_server(fields, extra)
        fingerprint = fields.get("system_fingerprint")
        self.provider = provider.of_response(fingerprint, self.weight_version is not None) or self.provider

    def _observe_server(self, fields: dict[str, Any], extra: dict[str, Any]) -> None:
        """Read the protocol extensions of SGLang (weight version) and vLLM (times)."""
        if extra is _NOTHING and fields.get("metadata") is None:
            return
        for facts in (fields.get("metadata"), extra.get("metadata"), extra.get("meta_info")):
            if isinstance(facts, dict) and facts.get("weight_version") is not None:
                self.weight_version = str(facts["weight_version"])
        times = extra.get("metrics")
        if isinstance(times, dict):
            self.server_times = {
                name: times[key] / 1000 for key, name in _SERVER_TIMES if isinstance(times.get(key), (int, float))
            }

    def _observe_usage(self, usage: dict[str, Any], extra: dict[str, Any]) -> None:
        tokens = usage.get("prompt_tokens")
        names = ("prompt", "completion") if tokens is not None else ("input", "output")
        self.input_tokens = usage.get(f"{names[0]}_tokens")
        self.output_tokens = usage.get(f"{names[1]}_tokens")
        # Versions of the client that do not know the details keep them among the extra fields.
        inputs, outputs = (f"{name}_tokens_details" for name in names)
        self.cached_tokens = fields_of(usage.get(inputs) or extra.get(inputs)).get("cached_tokens")
        self.reasoning_tokens = fields_of(usage.get(outputs) or extra.get(outputs)).get("reasoning_tokens")

    def _observe_choice(self, choice: Any, fields: dict[str, Any]) -> bool:
        """True when the choice is complete."""
        reason = fields.get("finish_reason")
        if reason is not None:
            self.finish_reasons.append(str(reason))
        token_ids = _extra(choice, fields).get("token_ids")
        if isinstance(token_ids, list):
            self.token_ids += len(token_ids)
        return reason is not None

    def _observe_status(self, fields: dict[str, Any], status: str) -> None:
        if status == "incomplete":
            reason = fields_of(fields.get("incomplete_details")).get("reason")
            self.finish_reasons = ["length" if reason == "max_output_tokens" else str(reason or status)]
        elif any(fields_of(item).get("type") == "function_call" for item in fields.get("output") or ()):
            self.finish_reasons = ["tool_calls"]
        elif status in _RESPONSE_STATUS_REASONS:
            self.finish_reasons = [_RESPONSE_STATUS_REASONS[status]]

    def exact_output_tokens(self) -> int | None:
        """Output tokens as the server counted them, or the number of token ids it sent."""
        return self.token_ids or None if self.output_tokens is None else self.output_tokens

    def server_attributes(self) -> dict[str, Any]:
        """Return the attributes that only RL inference servers report, for the span of the call."""
        found: dict[str, Any] = dict(self.server_times)
        if self.token_ids:
            found[attributes.RL_INFERENCE_TOKEN_IDS_COUNT] = self.token_ids
        if self.weight_version is not None:
            found[attributes.RL_INFERENCE_WEIGHT_VERSION] = self.weight_version
        return found

    def add_attributes(self, found: dict[str, Any]) -> None:
        """Add what the conventions ask of an answer; None when it did not say."""
        found[attributes.GEN_AI_RESPONSE_MODEL] = self.model
        found[attributes.GEN_AI_RESPONSE_ID] = self.response_id
        found[attributes.GEN_AI_RESPONSE_FINISH_REASONS] = self.finish_reasons or None
        found[attributes.GEN_AI_USAGE_INPUT_TOKENS] = self.input_tokens
        found[attributes.GEN_AI_USAGE_OUTPUT_TOKENS] = self.exact_output_tokens()
        found[attributes.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS] = self.cached_tokens
        found[attributes.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS] = self.reasoning_tokens
        if self.output_tokens is None and self.output_chunks and not self.token_ids:
            # An estimate stays on the span: a metric could not say that it is one.
            found[attributes.GEN_AI_USAGE_OUTPUT_TOKENS] = self.output_chunks
            found[attributes.RL_INFERENCE_TOKENS_ESTIMATED] = True
        if self.text:
            found[attributes.GEN_AI_OUTPUT_MESSAGES] = content.of_stream("".join(self.text), self.finish_reasons)
        elif self.messages is not None:
            found[attributes.GEN_AI_OUTPUT_MESSAGES] = self.messages


def fields_of(source: Any) -> dict[str, Any]:
    """The fields of a model or dictionary, without the cost of looking for one that is not there."""
    return source if isinstance(source, dict) else getattr(source, "__dict__", _NOTHING)


def _extra(source: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields that the protocol of OpenAI does not have; pydantic 1 keeps them among the others."""
    extra = getattr(source, "__pydantic_extra__", fields)
    return extra or _NOTHING
