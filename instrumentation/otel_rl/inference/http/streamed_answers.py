"""Facts of a streamed answer of an engine, of which as few events are parsed as have any.

Most events are a piece of text. Those of SGLang's ``/generate`` repeat all text so far: to parse each of them would
take as long as the square of their number. What a stream says about itself stands in its first event, in those that
end a sample, and in its last ones. Sources: vLLM 0.32 and SGLang 0.5.23, ``entrypoints/openai/serving_chat.py`` and
``srt/entrypoints/http_server.py`` (``generate_request``).
"""

from __future__ import annotations

from typing import Any

from otel_rl.inference import failures
from otel_rl.inference.answers import number_of_logprobs
from otel_rl.inference.fields import fields_of, items_of
from otel_rl.inference.http.bodies import parsed
from otel_rl.inference.http.protocols import LOGPROBS, VERSIONS, EngineAnswer, Length, length_of

#: The end of a stream in the protocol of OpenAI, which SGLang's own has too.
DONE = b"[DONE]"
_META = b'"meta_info":'
_REASON, _NO_REASON, _NO_REASON_SPACED = b'"finish_reason":', b'"finish_reason":null', b'"finish_reason": null'
_TOKENS, _NO_TOKENS = b'"token_ids":', b'"token_ids":null'
_ERROR_KEY = b'"error":'
#: The first piece of a call of a tool has an id beside that of the answer.
_TOOL_CALLS, _ID = b'"tool_calls":', b'"id":'
_LOGPROBS, _TOKEN_LOGPROBS = b'"logprobs":', b'"token_logprobs":'
#: Each token of a chat has the first key, and so has each of its alternatives. The second holds these, if it is there.
_TOKEN, _TOP_LOGPROBS = b'"token":', b'"top_logprobs":'
#: Most samples whose last events are kept.
_MOST_SAMPLES = 1024
#: ``error.type`` of an event with an error that has no type.
_ERROR = "stream_error"


class StreamedEngineAnswer(EngineAnswer):
    """Facts of the events of a stream, each given as its bytes."""

    _has_begun = False
    #: The last events, where nothing showed that they have facts; not parsed.
    _last: bytes | None = None
    _last_but_one: bytes | None = None
    #: The last event of SGLang's form with samples that are not finished; empty where all are.
    _unfinished: bytes | None = None
    #: An event was too long to be kept: what the ones before it say of tokens is not the result.
    _has_gap = False

    def __init__(self, samples: int, captures: bool = False) -> None:
        super().__init__(samples, captures)
        #: Last event of each sample, in SGLang's form.
        self._finished: list[dict[str, Any]] = []

    def observe_chunk(self, chunk: bytes) -> None:
        """Take the facts of one event; of one that is empty nobody knows any."""
        if not chunk:
            self._has_gap = True
            self._forget_tokens()
            return
        if self._has_begun and self._content is None and not _has_facts(chunk):
            if chunk == DONE:
                self.is_complete = True
                return
            if self._unfinished is not None and _META not in chunk:
                # An error: the samples stay as they were.
                self._observe_event_of(chunk)
                return
            self.output_chunks += 1
            if self._unfinished is None:
                self._pass_over(self._last_but_one)
                self._last_but_one, self._last = self._last, chunk
            else:
                self._unfinished = chunk
            return
        self._has_begun = True
        self._pass_over_last()
        if _META in chunk:
            self._observe_state(chunk)
        elif chunk == DONE:
            self.is_complete = True
        else:
            self._observe_event_of(chunk)

    def _observe_state(self, chunk: bytes) -> None:
        """Observe an event of SGLang: the sample as it is now, and with a reason when it is finished."""
        self.output_chunks += 1
        self._unfinished = chunk
        if _ends_a_sample(chunk) and len(self._finished) < _MOST_SAMPLES:
            self._finished.append(self._sample(chunk))
            self._unfinished = b""

    def _sample(self, chunk: bytes) -> dict[str, Any]:
        """Return what is read of an event of SGLang: its lists of logprobs are the most of it."""
        fields = fields_of(parsed(chunk))
        given = fields_of(fields.get("meta_info"))
        meta = {key: value for key, value in given.items() if not isinstance(value, list) or key == VERSIONS}
        ids, logprobs = length_of(fields.get("output_ids")), length_of(given.get(LOGPROBS))
        # With `incremental_streaming_output` of SGLang each event has those of its own tokens only.
        tokens = given.get("completion_tokens")
        meta[LOGPROBS] = Length(logprobs) if logprobs == tokens else None
        text = None if self._content is None else fields.get("text")
        return {"text": text, "output_ids": Length(ids) if ids == tokens else None, "meta_info": meta}

    def _forget_tokens(self) -> None:
        # The next event with a usage says them again.
        self.output_tokens = self.reasoning_tokens = None
        self._pass_over_last()

    def _pass_over_last(self) -> None:
        self._pass_over(self._last_but_one)
        self._pass_over(self._last)
        self._last_but_one = self._last = None

    def _pass_over(self, chunk: bytes | None) -> None:
        """Count the log-probabilities of an event of which nothing is parsed."""
        if chunk is not None and _LOGPROBS in chunk:
            self.logprobs += _number_of_logprobs(chunk)

    def _observe_event_of(self, chunk: bytes) -> None:
        """Observe an event in the protocol of OpenAI, or vLLM's from tokens to tokens."""
        event = fields_of(parsed(chunk))
        if "request_id" in event and "id" not in event:
            event["id"] = event["request_id"]
        self.failure = failures.of_answer(event, event, _ERROR) or self.failure
        super().observe_chunk(event)

    def end(self) -> None:
        """No further event comes."""
        last, self._last_but_one, self._last = (self._last_but_one, self._last), None, None
        for chunk in last:
            if chunk is not None:
                self.output_chunks -= 1
                self._observe_event_of(chunk)
        items, self._finished = self._finished, []
        if self._unfinished:
            # A list of its own: a copy of an answer that goes on ends, too.
            items = [*items, self._sample(self._unfinished)]
        self._unfinished = None
        if items:
            self.observe(items)
        if self._has_gap:
            # Neither an estimate nor ids are left that are those of the whole answer.
            self.output_chunks = self.token_ids = self.logprobs = 0
            if items:
                self.output_tokens = self.reasoning_tokens = None


def _ends_a_sample(chunk: bytes) -> bool:
    """Return whether a sample of the event is finished; each has the key, with ``null`` until it is."""
    keys = chunk.count(_REASON)
    return keys > 0 and keys != chunk.count(_NO_REASON) and keys != chunk.count(_NO_REASON_SPACED)


def _has_facts(chunk: bytes) -> bool:
    return _ends_a_sample(chunk) or _has_tokens(chunk) or _asks_for_tools(chunk) or _ERROR_KEY in chunk


def _asks_for_tools(chunk: bytes) -> bool:
    return _TOOL_CALLS in chunk and chunk.count(_ID) > 1


def _number_of_logprobs(chunk: bytes) -> int:
    """Log-probabilities of an event in the protocol of OpenAI, of which only one with alternatives is parsed.

    Those of a text completion stand in one list of numbers. A quote in a text has a backslash before it. vLLM 0.32
    leaves out the alternatives of a token that it has no log-probability of (``exclude_unset``).
    """
    if _TOKEN_LOGPROBS not in chunk:
        tokens, alternatives = chunk.count(_TOKEN), chunk.count(_TOP_LOGPROBS)
        return tokens if alternatives in (0, tokens) else _parsed_number_of_logprobs(chunk)
    values = (part.lstrip() for part in chunk.split(_TOKEN_LOGPROBS)[1:])
    lists = (value[1:].partition(b"]")[0].strip() for value in values if value.startswith(b"["))
    return sum(1 + numbers.count(b",") for numbers in lists if numbers)


def _parsed_number_of_logprobs(chunk: bytes) -> int:
    choices = items_of(fields_of(parsed(chunk)).get("choices"))
    return sum(number_of_logprobs(fields_of(choice).get("logprobs")) for choice in choices)


def _has_tokens(chunk: bytes) -> bool:
    return _TOKENS in chunk and _NO_TOKENS not in chunk
