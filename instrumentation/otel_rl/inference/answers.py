"""Tokens, finish reasons, failures and server facts of an answer, from one parsed object or the chunks of a stream.

Content is counted; it is kept only where the user wants it. What a server sends in another form than the protocol's is
left out.
"""

from __future__ import annotations

import json
from contextvars import ContextVar
from copy import copy
from typing import TYPE_CHECKING, Any

from otel_rl.inference import engine_times, failures, messages, servers, shortening, tool_round_trips, weight_versions
from otel_rl.inference.fields import count_of, extra_of, fields_of, items_of, text_of
from otel_rl.inference.streamed_messages import StreamedMessages
from otel_rl.semconv import attributes
from otel_rl.telemetry.attribute_values import text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Version of an engine's weights as its client counts them, for calls that begin here: the engine may not report one.
version_of_client: ContextVar[str | None] = ContextVar("otel_rl_version_of_client", default=None)
#: Finish reason of what failed.
_ERROR = "error"
#: "error" is the word of gateways.
_STATUS_REASONS = {"completed": "stop", "failed": _ERROR, "error": _ERROR, "cancelled": "cancelled"}
#: ``error.type`` of a failed response that names no code.
_FAILED = "response_failed"
#: Most choices whose finish reason is kept.
_MOST_CHOICES = 1024
#: Of the protocol. A reason of a server's own is cleaned like any text.
_KNOWN_REASONS = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})


#: Names of the fields of a usage: tokens of input and output, and their details.
_CHAT_USAGE = ("prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details")
_RESPONSE_USAGE = ("input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details")


class Answer:
    """Facts of one answer."""

    #: The content of a stream so far, where content is wanted.
    _content: StreamedMessages | None = None
    _messages: list[messages.Message] | None = None
    _finish_reasons: dict[int, str] | None = None
    #: Tools that it asks for, names by the ids of the calls.
    tool_calls: dict[str, str] | None = None
    _arguments: tool_round_trips.AskedArguments | None = None
    #: ``error.type`` of an answer that reports a failure instead of raising it.
    failure: str | None = None
    #: The server has said that it has said all; a stream may go on without a word.
    is_complete = False
    #: Times of each of its requests, see ``engine_times``.
    times: Sequence[Mapping[str, float]] = ()
    #: Requests of the engine that the call is, its candidates, and how often the engine interrupted one.
    requests = samples = 1
    preemptions = 0
    output_chunks = 0
    token_ids = logprobs = 0
    model: str | None = None
    response_id: str | None = None
    engine: str | None = None
    weight_version: str | None = None
    #: Output tokens by the version that made them, if the engine lists them.
    tokens_by_version: dict[str, int] | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    #: Input and output tokens of the calls inside of this one, as far as they are known.
    _inside: tuple[int | None, int | None] = (None, None)

    def __init__(self, captures: bool = False) -> None:
        if captures:
            self._content = StreamedMessages()
        self._version_of_client = version_of_client.get()

    # -- what came -------------------------------------------------------------------------------------------------

    def observe(self, answer: Any) -> None:
        """Take the facts of a complete answer: a model of a client, or the dictionary that a raw ``post`` returns."""
        fields = fields_of(answer)
        if not fields:
            return
        extra = extra_of(answer, fields)
        self._observe_head(fields, extra)
        # A gateway may say that its provider broke off, beside what came by then or a status of its own.
        self.failure = failures.of_answer(fields, extra) or self.failure
        choices = fields.get("choices")
        if choices:
            for position, choice in enumerate(items_of(choices)):
                parts = fields_of(choice)
                self._observe_choice(parts, extra_of(choice, parts), position)
                self.logprobs += number_of_logprobs(parts.get("logprobs"))
                message = fields_of(parts.get("message"))
                if message.get("tool_calls"):
                    self._add_tool_calls(tool_round_trips.calls_in(message))
                    self._add_arguments(_index(parts, position), message["tool_calls"])
        elif isinstance(fields.get("status"), str):
            self._observe_status(fields, fields["status"])
        if self._content is not None:
            self._messages = messages.output_messages(fields) or self._messages

    def observe_body(self, body: bytes) -> None:
        """Take the facts of an answer that the program did not read through its client; none of anything but JSON."""
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        self.observe(answer)

    def observe_chunk(self, chunk: Any) -> None:
        """Take the facts of one chunk of a stream: of a chat or text completion, or an event of a response."""
        fields = fields_of(chunk)
        choices = fields.get("choices")
        if choices is None:
            self._observe_event(fields)
            return
        # Servers put what they add on the first chunk, on the one with the finish reason, or on the one with the usage.
        if self.response_id is None or not choices or fields.get("usage") is not None:
            self._observe_head(fields, extra_of(chunk, fields))
        for position, choice in enumerate(items_of(choices)):
            parts = fields_of(choice)
            extra = extra_of(choice, parts)
            # Most chunks are a piece of text and nothing else.
            if (extra or parts.get("finish_reason") is not None) and self._observe_choice(parts, extra, position):
                self._observe_server(fields, extra_of(chunk, fields))
            self.logprobs += number_of_logprobs(parts.get("logprobs"))
            delta = fields_of(parts.get("delta"))
            if _says_something(parts, delta):
                self.output_chunks += 1
                if delta.get("tool_calls"):
                    self._add_tool_calls(tool_round_trips.calls_in(delta))
                    self._add_arguments(_index(parts, position), delta["tool_calls"])
            if self._content is not None:
                self._content.add_choice(parts, _index(parts, position))

    def add_inside(self, input_tokens: int | None, output_tokens: int | None) -> None:
        """Add the tokens of a call inside of this one."""
        given, made = self._inside
        self._inside = _sum(given, input_tokens), _sum(made, output_tokens)

    def adopt(self) -> None:
        """Take the tokens of the calls inside, and its client's version of the weights, unless the server sent them."""
        given, made = self._inside
        if given is not None and self.input_tokens is None:
            self.input_tokens = given
        if made is not None and self.exact_output_tokens() is None:
            self.output_tokens = made
        if self.weight_version is None:
            self.weight_version = self._version_of_client

    def end(self) -> None:
        """Nothing more comes; called once, however the call ends."""

    def so_far(self) -> Answer:
        """Return what it would be if nothing more came; it may go on."""
        ended = copy(self)
        ended.end()
        return ended

    def _observe_event(self, fields: dict[str, Any]) -> None:
        response = fields.get("response")
        if response is not None:
            self.observe(response)
            return
        kind = str(fields.get("type"))
        if kind.endswith(".delta"):
            self.output_chunks += 1
        elif kind == "error":
            self.failure = failures.name_of({"code": fields.get("code")}, _FAILED)
        if self._content is not None:
            self._content.add_event(fields, kind)

    def _observe_head(self, fields: dict[str, Any], extra: dict[str, Any]) -> None:
        self.model = text_of(fields.get("model")) or self.model
        identifier = fields.get("id")
        if identifier is not None:
            self.response_id = str(identifier)
        usage = fields.get("usage")
        if usage is not None:
            usage_fields = fields_of(usage)
            self._observe_usage(usage_fields, extra_of(usage, usage_fields))
        if extra or fields.get("metadata") is not None:
            self._observe_server(fields, extra)
        fingerprint = fields.get("system_fingerprint")
        if fingerprint is not None or self.weight_version is not None:
            self.engine = servers.engine_of(fingerprint, self.weight_version is not None) or self.engine

    def _observe_server(self, fields: dict[str, Any], extra: dict[str, Any]) -> None:
        """Read the protocol extensions of SGLang (weight version) and vLLM (times)."""
        for facts in (fields.get("metadata"), extra.get("metadata"), extra.get("meta_info")):
            if isinstance(facts, dict) and facts.get("weight_version") is not None:
                self.weight_version = str(facts["weight_version"])
                # Of the whole answer so far: events of a stream repeat it.
                self.tokens_by_version = None
                self._observe_versions(facts.get("weight_versions"))
        given = extra.get("metrics")
        times = None if given is None else engine_times.of_vllm(given)
        if times:
            self.times = [times]

    def _observe_versions(self, listed: Any) -> None:
        if listed:
            self.tokens_by_version = self.tokens_by_version or {}
            weight_versions.add(self.tokens_by_version, listed)

    def _observe_usage(self, usage: dict[str, Any], extra: dict[str, Any]) -> None:
        given, made, of_input, of_output = _CHAT_USAGE if "prompt_tokens" in usage else _RESPONSE_USAGE
        # Versions of the client that do not know the details keep them among the extra fields.
        inputs = fields_of(usage.get(of_input) or extra.get(of_input))
        outputs = fields_of(usage.get(of_output) or extra.get(of_output))
        details = inputs.get("cached_tokens"), inputs.get("cache_write_tokens"), outputs.get("reasoning_tokens")
        self.count(usage.get(given), usage.get(made), *details)

    def count(self, inputs: Any, outputs: Any, cached: Any = None, written: Any = None, reasoning: Any = None) -> None:
        """Take the tokens of a usage, which counts the answer so far, whatever a server sends in their place."""
        self.input_tokens, self.output_tokens = count_of(inputs), count_of(outputs)
        if cached is not None:
            self.cached_tokens = count_of(cached)
        if written is not None:
            self.cache_write_tokens = count_of(written)
        if reasoning is not None:
            self.reasoning_tokens = count_of(reasoning)

    def _observe_choice(self, fields: dict[str, Any], extra: dict[str, Any], position: int) -> bool:
        """Observe a choice; return whether it is complete."""
        reason = fields.get("finish_reason")
        if reason is not None:
            if self._finish_reasons is None:
                self._finish_reasons = {}
            if len(self._finish_reasons) < _MOST_CHOICES:
                self._finish_reasons[_index(fields, position)] = str(reason)
        if extra:
            # OpenRouter's, of the one choice that failed.
            self.failure = self.failure or failures.of_error(extra.get("error"))
            self._observe_versions(extra.get("weight_versions"))
            token_ids = extra.get("token_ids")
            if isinstance(token_ids, list):
                self.token_ids += len(token_ids)
        return reason is not None

    def _add_tool_calls(self, calls: Iterator[tuple[str, str]]) -> None:
        if self.tool_calls is None:
            self.tool_calls = {}
        tool_round_trips.add(self.tool_calls, calls)

    def _add_arguments(self, choice: int, calls: Any) -> None:
        if self._arguments is None:
            self._arguments = tool_round_trips.AskedArguments()
        self._arguments.add(choice, calls)

    def _observe_status(self, fields: dict[str, Any], status: str) -> None:
        reason = _STATUS_REASONS.get(status)
        if status == "incomplete":
            because = text_of(fields_of(fields.get("incomplete_details")).get("reason"))
            reason = "length" if because == "max_output_tokens" else because or status
        elif status == "failed":
            self.failure = failures.name_of(fields.get("error"), _FAILED)
        elif reason != _ERROR and any(map(tool_round_trips.is_call, items_of(fields.get("output")))):
            reason = "tool_calls"
            self._add_tool_calls(tool_round_trips.calls_of_response(fields.get("output")))
            self._add_arguments(0, fields.get("output"))
        self._finish_reasons = None if reason is None else {0: reason}

    def finish(self, reason: str) -> None:
        """Take the reason for the end of an answer with one choice, from who knows it otherwise."""
        self._finish_reasons = {0: reason}

    # -- what it says ----------------------------------------------------------------------------------------------

    @property
    def finish_reasons(self) -> tuple[str, ...] | None:
        """Why generation ended, in the order of the choices; None where no choice says."""
        reasons = self._finish_reasons
        if reasons is None:
            return None
        return tuple(reasons.values()) if len(reasons) == 1 else tuple(reason for _, reason in sorted(reasons.items()))

    def exact_output_tokens(self) -> int | None:
        """Output tokens as the server counted them, or the number of token ids it sent."""
        return self.token_ids or None if self.output_tokens is None else self.output_tokens

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Input and output tokens, where the server said them."""
        return self.input_tokens, self.exact_output_tokens()

    def server_attributes(self) -> dict[str, Any]:
        """Return the attributes that only RL inference servers report, for the span of the call; they are clean."""
        values: dict[str, Any] = engine_times.means(engine_times.together(self.times)) if self.times else {}
        if self.token_ids:
            values[attributes.RL_INFERENCE_TOKEN_IDS_COUNT] = self.token_ids
        if self.logprobs:
            values[attributes.RL_INFERENCE_LOGPROBS_COUNT] = self.logprobs
        values.update(self.version_attributes())
        if self.engine is not None:
            values[attributes.RL_INFERENCE_ENGINE] = self.engine
        if self.tool_calls:
            values[attributes.RL_INFERENCE_TOOL_CALLS] = tuple(self.tool_calls.values())
            # Of a stream that ended early the rest is missing.
            invalid = self._arguments.invalid() if self._arguments is not None and self._finish_reasons else ()
            if invalid:
                values[attributes.RL_INFERENCE_INVALID_TOOL_CALLS] = invalid
        if self.output_chunks and self.output_tokens is None and not self.token_ids:
            # An estimate has a name of its own and stays off the metric, which could not say that it is one.
            values[attributes.RL_INFERENCE_OUTPUT_TOKENS_ESTIMATED] = self.output_chunks
        return values

    def version_attributes(self) -> dict[str, Any]:
        """Return the versions of the weights that made it."""
        if self.weight_version is None:
            return {}
        several = weight_versions.attributes_of(self.tokens_by_version or {})
        return {attributes.RL_INFERENCE_WEIGHT_VERSION: text(self.weight_version), **several}

    def add_attributes(self, values: dict[str, Any]) -> None:
        """Add what the conventions ask of an answer, as far as it said; what is added is clean."""
        if self.model is not None:
            values[attributes.GEN_AI_RESPONSE_MODEL] = text(self.model)
        if self.response_id is not None:
            values[attributes.GEN_AI_RESPONSE_ID] = text(self.response_id)
        reasons = self.finish_reasons
        if reasons is not None:
            values[attributes.GEN_AI_RESPONSE_FINISH_REASONS] = (
                reasons if _KNOWN_REASONS.issuperset(reasons) else tuple(map(text, reasons))
            )
        if self.input_tokens is not None:
            values[attributes.GEN_AI_USAGE_INPUT_TOKENS] = self.input_tokens
        output_tokens = self.exact_output_tokens()
        if output_tokens is not None:
            values[attributes.GEN_AI_USAGE_OUTPUT_TOKENS] = output_tokens
        if self.cached_tokens is not None:
            values[attributes.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS] = self.cached_tokens
        if self.cache_write_tokens is not None:
            values[attributes.GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS] = self.cache_write_tokens
        if self.reasoning_tokens is not None:
            values[attributes.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS] = self.reasoning_tokens

    def output_messages(self) -> str | None:
        """Messages of the answer as JSON, where content is wanted and there is some."""
        if self._content is None:
            return None
        answer = self._messages or self._content.messages()
        if not answer:
            return None
        reasons = self._finish_reasons
        if reasons is not None and len(answer) == 1:
            # That of a response is known from its status.
            answer = [messages.answered(answer[0]["parts"], reasons.get(0) or next(iter(reasons.values())))]
        return shortening.messages_as_json(answer)


def _sum(before: int | None, further: int | None) -> int | None:
    return before if further is None else (before or 0) + further


def _index(choice: dict[str, Any], position: int) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else position


def number_of_logprobs(given: Any) -> int:
    """Log-probabilities of the tokens of a choice; a text completion has them in a list of their own."""
    if given is None:
        return 0
    fields = fields_of(given)
    return sum(len(items_of(fields.get(name))) for name in ("content", "refusal")) or len(
        items_of(fields.get("token_logprobs"))
    )


def _says_something(choice: dict[str, Any], delta: dict[str, Any]) -> bool:
    """Return whether a chunk has text, a tool call or reasoning; one token each, as servers send them."""
    if delta.get("content") or choice.get("text") or delta.get("tool_calls"):
        return True
    extra = extra_of(choice.get("delta"), delta)
    return bool(extra and (extra.get("reasoning") or extra.get("reasoning_content")))
