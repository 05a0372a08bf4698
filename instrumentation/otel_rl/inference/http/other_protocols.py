"""Protocols other than OpenAI's: events of Anthropic's Messages as bytes, Ollama's, and which one a path speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.inference import converse_protocol, failures, gemini_protocol
from otel_rl.inference.answers import Answer
from otel_rl.inference.fields import fields_of, items_of
from otel_rl.inference.http import paths
from otel_rl.inference.http.bodies import parsed
from otel_rl.inference.messages_protocol import MessagesAnswer
from otel_rl.semconv.attributes import GenAiProviderNameValues

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TEXT = b'"text_delta"'
#: What only lines of Ollama have that are more than a piece of text.
_FACTS = (b'"done":true', b'"done": true', b'"tool_calls":', b'"error":')


class MessagesEvents(MessagesAnswer):
    """Facts of a streamed message."""

    def observe_chunk(self, chunk: bytes) -> None:
        """Take the facts of one event; a piece of text is counted only."""
        if self._content is None and _TEXT in chunk:
            self.output_chunks += 1
        else:
            super().observe_chunk(parsed(chunk))


class OllamaAnswer(Answer):
    """Facts of ``/api/chat`` and ``/api/generate``; the last line of a stream has the fields of a complete answer."""

    def observe(self, answer: Any) -> None:
        """Take the facts of a complete answer."""
        fields = fields_of(answer)
        message = {**fields_of(fields.get("message")), "tool_calls": _calls(fields), "reasoning": _thinking(fields)}
        choice = {"text": fields.get("response"), "message": message, "finish_reason": fields.get("done_reason")}
        super().observe({**self._head(fields), "choices": [choice] if fields.get("done") else None})

    def observe_chunk(self, chunk: bytes) -> None:
        """Take the facts of one line; a piece of text is counted only."""
        if self._content is None and not any(fact in chunk for fact in _FACTS):
            self.output_chunks += 1
            return
        fields = fields_of(parsed(chunk))
        text = fields_of(fields.get("message")).get("content") or fields.get("response")
        delta = {"content": text, "reasoning": _thinking(fields), "tool_calls": _calls(fields)}
        head = self._head(fields)
        self.failure = self.failure or failures.of_answer(head, head)
        super().observe_chunk({**head, "choices": [{"delta": delta, "finish_reason": fields.get("done_reason")}]})
        self.is_complete = fields.get("done") is True

    def _head(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        if fields.get("done"):
            self.count(fields.get("prompt_eval_count"), fields.get("eval_count"))
        return {name: fields.get(name) for name in ("model", "error")}


def as_ollama_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request with its options beside the model; it asks for a stream unless it says otherwise."""
    options = fields_of(body.get("options"))
    given = {**body, "messages": list(map(_with_id, items_of(body.get("messages"))))} if "messages" in body else body
    return {"max_tokens": options.get("num_predict"), **options, "stream": True, **given} if body else {}


def _with_id(message: Any) -> Any:
    """Return a message; of a tool's result without an id with the tool's name as its id, as `_calls` has it."""
    fields = fields_of(message)
    name = fields.get("tool_name") if fields.get("role") == "tool" else None
    return {"tool_call_id": name, **fields} if name else message


def _thinking(fields: Mapping[str, Any]) -> Any:
    return fields.get("thinking") or fields_of(fields.get("message")).get("thinking")


def _calls(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tools that an answer asks for: older servers give them no id."""
    calls = map(fields_of, items_of(fields_of(fields.get("message")).get("tool_calls")))
    return [{**call, "id": call.get("id") or fields_of(call.get("function")).get("name")} for call in calls]


class Protocol(NamedTuple):
    """How one of them is read: the provider unless the host shows it, a request, an answer, and that of a stream."""

    provider: str
    as_request: Callable[[Mapping[str, Any]], dict[str, Any]]
    answer: Callable[..., Answer]
    events: Callable[..., Answer]


_OLLAMA = Protocol(GenAiProviderNameValues.OLLAMA, as_ollama_request, OllamaAnswer, OllamaAnswer)
_GEMINI, _CONVERSE = gemini_protocol.GeminiAnswer, converse_protocol.ConverseAnswer
#: Endpoint -> its protocol. The events of Bedrock are frames, of which nothing is read.
PROTOCOLS = {
    paths.MESSAGES: Protocol(GenAiProviderNameValues.ANTHROPIC, dict, MessagesAnswer, MessagesEvents),
    paths.OLLAMA_CHAT: _OLLAMA,
    paths.OLLAMA_GENERATE: _OLLAMA,
    paths.GEMINI: Protocol(GenAiProviderNameValues.GCP_GEMINI, gemini_protocol.as_messages_request, _GEMINI, _GEMINI),
    paths.CONVERSE: Protocol(
        GenAiProviderNameValues.AWS_BEDROCK, converse_protocol.as_messages_request, _CONVERSE, _CONVERSE
    ),
}
