"""What an answer says: tokens, finish reasons, server facts. Content is counted, never kept."""

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
        self.server_times: dict[str, float] = {}
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
        if not isinstance(response, dict) and not hasattr(response, "__dict__"):
            return
        self._observe_head(response)
        choices = read(response, "choices")
        for choice in choices or ():
            self._observe_choice(choice)
        status = None if choices else read(response, "status")
        if isinstance(status, str):
            self._observe_status(response, status)
        if self.collects_text:
            self.messages = content.of_response(response, read)

    def observe_chunk(self, chunk: Any) -> None:
        """Take the facts of one chunk of a chat or text completion."""
        choices = read(chunk, "choices") or ()
        # Servers put what they add on the first chunk, on the one with the finish reason, or on the one with the usage.
        if self.response_id is None or not choices or read(chunk, "usage") is not None:
            self._observe_head(chunk)
        for choice in choices:
            if self._observe_choice(choice):
                self._observe_server(chunk)
            delta = read(choice, "delta")
            text = read(choice, "text") if delta is None else read(delta, "content")
            if text or (delta is not None and read(delta, "tool_calls")):
                self.output_chunks += 1
                if self.collects_text and text:
                    self.text.append(text)

    def observe_event(self, event: Any) -> None:
        """Take the facts of one event of a streamed response (``/responses``)."""
        response = read(event, "response")
        if response is not None:
            self.observe(response)
        elif str(read(event, "type")).endswith(".delta"):
            self.output_chunks += 1

    def _observe_head(self, response: Any) -> None:
        self.model = read(response, "model") or self.model
        self.response_id = read(response, "id") or self.response_id
        usage = read(response, "usage")
        if usage is not None:
            self._observe_usage(usage)
        self._observe_server(response)
        self.provider = (
            provider.of_response(read(response, "system_fingerprint"), self.weight_version is not None) or self.provider
        )

    def _observe_server(self, response: Any) -> None:
        """What SGLang (weight version) and vLLM (times) add to the protocol."""
        fields, extra = _fields(response), _extra(response)
        for key in ("metadata", "meta_info"):
            facts = fields.get(key) or extra.get(key)
            if isinstance(facts, dict) and facts.get("weight_version") is not None:
                self.weight_version = str(facts["weight_version"])
        times = extra.get("metrics")
        if isinstance(times, dict):
            for key, name in _SERVER_TIMES:
                if isinstance(times.get(key), (int, float)):
                    self.server_times[name] = times[key] / 1000

    def _observe_usage(self, usage: Any) -> None:
        for prefix, output in (("prompt", "completion"), ("input", "output")):
            tokens = read(usage, f"{prefix}_tokens")
            if tokens is None:
                continue
            self.input_tokens = tokens
            self.output_tokens = read(usage, f"{output}_tokens")
            self.cached_tokens = read(read(usage, f"{prefix}_tokens_details"), "cached_tokens")
            self.reasoning_tokens = read(read(usage, f"{output}_tokens_details"), "reasoning_tokens")
            return

    def _observe_choice(self, choice: Any) -> bool:
        """True where the choice is complete."""
        reason = read(choice, "finish_reason")
        if reason is not None:
            self.finish_reasons.append(str(reason))
        token_ids = _extra(choice).get("token_ids")
        if isinstance(token_ids, list):
            self.token_ids += len(token_ids)
        return reason is not None

    def _observe_status(self, response: Any, status: str) -> None:
        if status == "incomplete":
            reason = read(read(response, "incomplete_details"), "reason")
            self.finish_reasons = ["length" if reason == "max_output_tokens" else str(reason or status)]
        elif status == "completed" and any(
            read(item, "type") == "function_call" for item in read(response, "output") or ()
        ):
            self.finish_reasons = ["tool_calls"]
        elif status in _RESPONSE_STATUS_REASONS:
            self.finish_reasons = [_RESPONSE_STATUS_REASONS[status]]

    def server_attributes(self) -> dict[str, Any]:
        """What only an inference server for RL tells; added to whichever span stands for the call."""
        found: dict[str, Any] = dict(self.server_times)
        if self.token_ids:
            found[attributes.RL_INFERENCE_TOKEN_IDS_COUNT] = self.token_ids
        if self.weight_version is not None:
            found[attributes.RL_INFERENCE_WEIGHT_VERSION] = self.weight_version
        return found

    def exact_output_tokens(self) -> int | None:
        """Output tokens as the server counted them, or the number of token ids it sent."""
        return self.token_ids or None if self.output_tokens is None else self.output_tokens

    def attributes(self) -> dict[str, Any]:
        """What the conventions ask of the answer; None where it did not say."""
        found: dict[str, Any] = {
            attributes.GEN_AI_RESPONSE_MODEL: self.model,
            attributes.GEN_AI_RESPONSE_ID: self.response_id,
            attributes.GEN_AI_RESPONSE_FINISH_REASONS: self.finish_reasons or None,
            attributes.GEN_AI_USAGE_INPUT_TOKENS: self.input_tokens,
            attributes.GEN_AI_USAGE_OUTPUT_TOKENS: self.exact_output_tokens(),
            attributes.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: self.cached_tokens,
            attributes.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: self.reasoning_tokens,
        }
        if self.output_tokens is None and self.output_chunks and not self.token_ids:
            found[attributes.GEN_AI_USAGE_OUTPUT_TOKENS] = self.output_chunks
            found[attributes.RL_INFERENCE_TOKENS_ESTIMATED] = True
        if self.text:
            found[attributes.GEN_AI_OUTPUT_MESSAGES] = content.of_stream("".join(self.text), self.finish_reasons)
        elif self.messages is not None:
            found[attributes.GEN_AI_OUTPUT_MESSAGES] = self.messages
        return found


def read(source: Any, name: str) -> Any:
    """``source.name``, or ``source[name]`` of a dictionary; None where there is none."""
    if source is None:
        return None
    return source.get(name) if isinstance(source, dict) else getattr(source, name, None)


def _fields(source: Any) -> dict[str, Any]:
    return source if isinstance(source, dict) else vars(source)


def _extra(source: Any) -> dict[str, Any]:
    """Fields that the protocol of OpenAI does not have; pydantic 1 keeps them among the others."""
    extra = None if isinstance(source, dict) else getattr(source, "model_extra", None)
    return extra if isinstance(extra, dict) else _fields(source)
