"""What was said to models and tools, where the user captured content."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Longest conversation of the page, in characters.
LONGEST = 32_768
#: The variable that records content.
VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"
#: Roles that the page gives a colour; others look like the user's.
_ROLES = frozenset({"system", "user", "assistant", "tool"})
#: Role of a message that says how many are left out.
_OMITTED = "omitted"


@dataclass(frozen=True, slots=True)
class Message:
    """Who said what."""

    role: str
    text: str

    @property
    def tone(self) -> str:
        """The role that sets the colour."""
        return self.role if self.role in _ROLES else "other"


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages that are read together; ``anchor`` is the id that links lead to."""

    title: str
    anchor: str
    messages: tuple[Message, ...]


def shortened(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return messages of at most :data:`LONGEST` characters together, with a line on what is left out."""
    kept: list[Message] = []
    room, more = LONGEST, 0
    for message in messages:
        if room > 0:
            kept.append(Message(message.role, message.text[:room]))
        more += max(len(message.text) - max(room, 0), 0)
        room -= len(message.text)
    return (*kept, Message("", f"[{more} more characters]")) if more else tuple(kept)


def of_tool(given: Mapping[str, Any]) -> list[Message]:
    """Return arguments and result of a tool call, from the attributes of its span."""
    parts = (("arguments", names.GEN_AI_TOOL_CALL_ARGUMENTS), ("result", names.GEN_AI_TOOL_CALL_RESULT))
    return [Message(role, _readable(given[name])) for role, name in parts if name in given]


def _readable(encoded: Any) -> str:
    if not isinstance(encoded, str):
        return plain(encoded)
    try:
        return plain(json.loads(encoded))
    except (ValueError, RecursionError):
        return encoded


def messages_of(given: Mapping[str, Any]) -> list[Message]:
    """Return what was said to a model and what it answered, from the attributes of a span or an event.

    Of messages that an earlier call has recorded their number is said.
    """
    number = int_or_none(given.get(names.RL_INFERENCE_EARLIER_MESSAGES))
    before = [_earlier(number, "recorded with a call before this one")] if number else []
    return [*before, *_inputs(given), *_outputs(given)]


def _inputs(given: Mapping[str, Any]) -> list[Message]:
    return _parsed(given.get(names.GEN_AI_INPUT_MESSAGES))


def _outputs(given: Mapping[str, Any]) -> list[Message]:
    return _parsed(given.get(names.GEN_AI_OUTPUT_MESSAGES))


def _earlier(number: int, where: str) -> Message:
    return Message("", f"[{number} earlier message{'s' if number > 1 else ''}: {where}]")


class Histories:
    """The calls of a trajectory one after the other, each with all messages that it was sent with."""

    def __init__(self) -> None:
        self._inputs: dict[str, list[Message]] = {}
        #: How many messages these are.
        self._numbers: dict[str, float] = {}

    def messages_of(self, span_id: str, given: Mapping[str, Any]) -> list[Message]:
        """Return what was said to a model and what it answered, from the attributes of its span."""
        number = int_or_none(given.get(names.RL_INFERENCE_EARLIER_MESSAGES)) or 0
        before = self._before(number, str(given.get(names.RL_INFERENCE_EARLIER_SPAN_ID))) if number else []
        own = _inputs(given)
        self._inputs[span_id] = [*before, *own]
        # One that stands for those left out says so itself.
        is_short = any(message.role == _OMITTED for message in own)
        self._numbers[span_id] = math.inf if is_short else number + len(own)
        return [*self._inputs[span_id], *_outputs(given)]

    def _before(self, number: int, span_id: str) -> list[Message]:
        """Return the messages of the earlier call; of those that cannot be read in its span the number is said."""
        known = self._inputs.get(span_id)
        if known is None:
            return [_earlier(number, "their span is not here")]
        if (readable := self._numbers[span_id]) < number:
            return [*known, _earlier(int(number - readable), "cut off in their span")]
        return known


def _parsed(encoded: Any) -> list[Message]:
    """Return messages from JSON in the form of the GenAI conventions; other forms are left out."""
    if isinstance(encoded, str):
        try:
            encoded = json.loads(encoded)
        except (ValueError, RecursionError):
            return []
    if not isinstance(encoded, list):
        return []
    return [
        Message(str(item.get("role") or "?"), _text(item.get("parts"))) for item in encoded if isinstance(item, dict)
    ]


def _text(parts: Any) -> str:
    return "\n".join(_part(part) for part in parts if isinstance(part, dict)) if isinstance(parts, list) else ""


def _part(part: dict[str, Any]) -> str:
    kind = str(part.get("type") or "?")
    if isinstance(part.get("content"), str):
        return part["content"] if kind == "text" else f"[{kind}] {part['content']}"
    if kind == "tool_call":
        return f"[calls {part.get('name')}] {plain(part.get('arguments'))}"
    if kind == "tool_call_response":
        return plain(part.get("response", part.get("result")))
    return f"[{kind}] {plain({key: value for key, value in part.items() if key != 'type'})}"


def plain(value: Any) -> str:
    """Return a value as it is read: text as it is, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
