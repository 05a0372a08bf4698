"""Messages of a stream, collected from its chunks; called only when the user wants content.

What a stream brings is bounded: of each text the beginning is kept, and of choices and parts a fixed number. More of a
text is kept where a redaction function sees it before it is cut: half a secret would not look like one.
"""

from __future__ import annotations

from typing import Any

from otel_rl.inference import message_parts as parts_of
from otel_rl.inference import messages
from otel_rl.inference.fields import all_fields_of, fields_of, items_of, text_of
from otel_rl.telemetry import redaction
from otel_rl.telemetry.attribute_values import truncate
from otel_rl.telemetry.content_capture import LONGEST, longest

#: Most choices, and most tool calls or items of one choice.
_MOST = 128


class StreamedMessages:
    """What the chunks of one stream said so far."""

    __slots__ = ("_choices", "_items")

    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}
        self._items: dict[int, _Item] = {}

    def add_choice(self, choice: dict[str, Any], index: int) -> None:
        """Take what a chunk says of one choice of a chat or text completion."""
        known = _one_of(self._choices, index, _Choice)
        if known is not None:
            known.add(all_fields_of(choice.get("delta")), choice)

    def add_event(self, event: dict[str, Any], kind: str) -> None:
        """Take an event of a response: an item that begins or is complete, or a piece of one."""
        index = event.get("output_index")
        item = _one_of(self._items, index, _Item) if isinstance(index, int) else None
        if item is not None:
            item.add(event, kind)

    def messages(self) -> list[messages.Message]:
        """Return the messages so far, in the order of their choices."""
        answers = [choice.message() for _, choice in sorted(self._choices.items())]
        items = [item.complete() for _, item in sorted(self._items.items())]
        if items:
            answers.append(messages.of_output(items))
        return [message for message in answers if message["parts"] or "finish_reason" in message]


def _one_of(known: dict[int, Any], index: int, kind: type) -> Any:
    """Return the entry of this index, new where there is room."""
    entry = known.get(index)
    if entry is None and len(known) < _MOST:
        entry = known[index] = kind()
    return entry


class _Text:
    """A text in pieces; what exceeds the longest text that is of use is only counted."""

    __slots__ = ("_length", "_longest", "_pieces")

    def __init__(self) -> None:
        self._longest = longest() if redaction.redact() is None else LONGEST
        self._pieces: list[str] = []
        self._length = 0

    def add(self, piece: Any) -> None:
        if isinstance(piece, str) and piece:
            if self._length <= self._longest:
                self._pieces.append(piece)
            self._length += len(piece)

    def whole(self) -> str | None:
        joined = "".join(self._pieces)
        return truncate(joined, self._longest, whole=self._length) if joined else None


class _StreamedToolCall:
    __slots__ = ("arguments", "identifier", "name")

    def __init__(self) -> None:
        self.identifier: str | None = None
        self.name: str | None = None
        self.arguments = _Text()

    def add(self, delta: dict[str, Any]) -> None:
        self.identifier = text_of(delta.get("id")) or self.identifier
        function = fields_of(delta.get("function")) or fields_of(delta.get("custom"))
        self.name = self.name or text_of(function.get("name"))
        self.arguments.add(function.get("arguments") or function.get("input"))

    def part(self) -> parts_of.Part:
        return parts_of.tool_call(self.identifier, self.name, self.arguments.whole())


class _Choice:
    __slots__ = ("_calls", "_reason", "_reasoning", "_refusal", "_text")

    def __init__(self) -> None:
        self._text, self._reasoning, self._refusal = _Text(), _Text(), _Text()
        self._calls: dict[int, _StreamedToolCall] = {}
        self._reason: Any = None

    def add(self, delta: dict[str, Any], choice: dict[str, Any]) -> None:
        self._text.add(delta.get("content") or choice.get("text"))
        self._reasoning.add(delta.get("reasoning") or delta.get("reasoning_content"))
        self._refusal.add(delta.get("refusal"))
        self._reason = choice.get("finish_reason") or self._reason
        calls = list(items_of(delta.get("tool_calls")))
        if delta.get("function_call"):
            calls.append({"index": -1, "function": delta["function_call"]})
        for call in map(fields_of, calls):
            index = call.get("index")
            tool_call = _one_of(self._calls, index if isinstance(index, int) else 0, _StreamedToolCall)
            if tool_call is not None:
                tool_call.add(call)

    def message(self) -> messages.Message:
        parts = []
        reasoning = self._reasoning.whole()
        if reasoning is not None:
            parts.append(parts_of.reasoning(reasoning))
        parts += [parts_of.text(each) for each in (self._text.whole(), self._refusal.whole()) if each is not None]
        parts += [call.part() for _, call in sorted(self._calls.items())]
        return messages.answered(parts, self._reason)


class _Item:
    """An item of a response, as it is complete, or of what its pieces say so far."""

    __slots__ = ("_arguments", "_known", "_reasoning", "_text")

    def __init__(self) -> None:
        self._known: Any = None
        self._text, self._reasoning, self._arguments = _Text(), _Text(), _Text()

    def add(self, event: dict[str, Any], kind: str) -> None:
        if "item" in event:
            self._known = event["item"]
        elif kind in ("response.output_text.delta", "response.refusal.delta"):
            self._text.add(event.get("delta"))
        elif kind.startswith("response.reasoning") and kind.endswith(".delta"):
            self._reasoning.add(event.get("delta"))
        elif kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
            self._arguments.add(event.get("delta"))

    def complete(self) -> dict[str, Any]:
        item = dict(fields_of(self._known))
        text, reasoning, arguments = self._text.whole(), self._reasoning.whole(), self._arguments.whole()
        if text is not None and not item.get("content"):
            item["content"] = text
        if reasoning is not None and not item.get("summary"):
            item["summary"] = [{"text": reasoning}]
        if arguments is not None and not (item.get("arguments") or item.get("input")):
            item["arguments"] = arguments
        return item
