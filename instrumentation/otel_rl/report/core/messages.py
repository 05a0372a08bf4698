"""What was said to models and tools, where the user captured content."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.report.core import cut_messages
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
#: Role of a message, and kind of a part, that says how many are left out.
_OMITTED = "omitted"


class Said(NamedTuple):
    """A part of a message: what tells it from others. ``identifier`` is that of a tool call."""

    kind: str
    identifier: str
    text: str


class ByCall(NamedTuple):
    """The model call that a message was sent with, or that made it, as far as it is known."""

    agent: str = ""
    model: str = ""
    turn: int | None = None

    @property
    def label(self) -> str:
        """What the page says before a message: "planner, small-model, turn 3"."""
        return ", ".join(part for part in (self.agent, self.model, self.turn and f"turn {self.turn}") if part)


@dataclass(frozen=True, slots=True)
class Message:
    """Who said what."""

    role: str
    text: str
    #: What it says. Reasoning is apart: most programs leave it out when they send an answer again.
    parts: tuple[Said, ...] = field(default=(), compare=False)
    reasoning: str = field(default="", compare=False)
    call: ByCall = field(default=ByCall(), compare=False)
    #: As it was recorded; None for a line of ours.
    item: Mapping[str, Any] | None = field(default=None, compare=False)

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
            kept.append(Message(message.role, message.text[:room], call=message.call))
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


class _Read(NamedTuple):
    """The messages of an attribute. ``whole``: how many of them are not cut; ``note`` says that it was cut off."""

    messages: list[Message]
    whole: int
    note: list[Message]


def messages_of(given: Mapping[str, Any]) -> list[Message]:
    """Return what was said to a model and what it answered, from the attributes of a span or an event.

    Of messages that an earlier call has recorded their number is said.
    """
    number = int_or_none(given.get(names.RL_INFERENCE_EARLIER_MESSAGES))
    before = [_earlier(number, "recorded with a call before this one")] if number else []
    sent, answered = _read(given)
    return [*before, *sent.messages, *sent.note, *answered.messages, *answered.note]


def _read(given: Mapping[str, Any]) -> tuple[_Read, _Read]:
    """Return what a call was sent with and has answered; of content that is off some libraries record the frame."""
    sent, answered = map(_parsed, map(given.get, (names.GEN_AI_INPUT_MESSAGES, names.GEN_AI_OUTPUT_MESSAGES)))
    if any(_says_something(message.item) for message in (*sent.messages, *answered.messages)):
        return sent, answered
    return _Read([], 0, sent.note), _Read([], 0, answered.note)


def _earlier(number: int, where: str) -> Message:
    return Message("", f"[{number} earlier message{'s' if number > 1 else ''}: {where}]")


class CallMessages(NamedTuple):
    """What a call was sent with and has answered; the notes say what of it was cut off."""

    sent: list[Message]
    sent_note: list[Message]
    answered: list[Message]
    answered_note: list[Message]


class Histories:
    """The calls of a trajectory one after the other, each with all messages that it was sent with."""

    def __init__(self) -> None:
        self._inputs: dict[str, list[Message]] = {}
        #: How many messages these are.
        self._numbers: dict[str, float] = {}

    def messages_of(self, span_id: str, given: Mapping[str, Any]) -> CallMessages:
        """Return what was said to a model and what it answered, from the attributes of its span."""
        number = int_or_none(given.get(names.RL_INFERENCE_EARLIER_MESSAGES)) or 0
        before = self._before(number, str(given.get(names.RL_INFERENCE_EARLIER_SPAN_ID))) if number else []
        own, answer = _read(given)
        self._inputs[span_id] = [*before, *own.messages]
        # One that stands for those left out says so itself.
        is_short = any(message.role == _OMITTED for message in own.messages)
        self._numbers[span_id] = math.inf if is_short else number + own.whole
        return CallMessages(self._inputs[span_id], own.note, answer.messages, answer.note)

    def _before(self, number: int, span_id: str) -> list[Message]:
        """Return the messages of the earlier call; of those that cannot be read in its span the number is said."""
        known = self._inputs.get(span_id)
        if known is None:
            return [_earlier(number, "their span is not here")]
        if (readable := self._numbers[span_id]) < number:
            return [*known, _earlier(int(number - readable), "cut off in their span")]
        return known


def by_call(messages: Iterable[Message], given: Mapping[str, Any], agent: str = "") -> list[Message]:
    """Return messages with the call that they are of, from the attributes of its span or event."""
    model = given.get(names.GEN_AI_RESPONSE_MODEL) or given.get(names.GEN_AI_REQUEST_MODEL) or ""
    turn = int_or_none(given.get(names.RL_ROLLOUT_TURN))
    call = ByCall(str(given.get(names.GEN_AI_AGENT_NAME) or agent), str(model), turn)
    return [replace(message, call=call) for message in messages]


def _parsed(encoded: Any) -> _Read:
    """Return messages from JSON in the form of the GenAI conventions; other forms are left out."""
    if isinstance(encoded, str):
        try:
            encoded = json.loads(encoded)
        except ValueError:
            return _cut(encoded)
        except RecursionError:
            return _Read([], 0, [])
    messages = _all(encoded) if isinstance(encoded, list) else []
    return _Read(messages, len(messages), [])


def _cut(encoded: str) -> _Read:
    """Return the messages of an attribute that ends too early, and a note that says so."""
    read = cut_messages.read(encoded)
    if read is None:
        return _Read([], 0, [])
    whole, begun = _all(read[0]), _all([read[1]] if _says_something(read[1]) else [])
    note = f"[cut off: of these messages the first {len(encoded)} characters are recorded, see docs/content.md]"
    return _Read([*whole, *begun], len(whole), [Message("", note)])


def _says_something(item: Any) -> bool:
    """Return whether there is more of a message than who says it, and by which tool."""
    parts, frame = (item.get("parts") if isinstance(item, dict) else None), {"type", "id", "name"}
    return isinstance(parts, list) and any(isinstance(part, dict) and part.keys() - frame for part in parts)


def _all(items: list[Any]) -> list[Message]:
    return [_message(item) for item in items if isinstance(item, dict)]


def _message(item: dict[str, Any]) -> Message:
    given = item.get("parts")
    parts = [part for part in given if isinstance(part, dict)] if isinstance(given, list) else []
    # A message of a tool call has no text: for one program that is none, for another an empty one.
    parts = [part for part in parts if part.get("type") != "text" or part.get("content") != ""]
    said, reasoning = [], []
    for part in parts:
        if part.get("type") == "reasoning":
            reasoning.append(_part(part))
        else:
            said.append(Said(str(part.get("type") or "?"), str(part.get("id") or ""), _part(part)))
    text = "\n".join(map(_part, parts))
    return Message(str(item.get("role") or "?"), text, tuple(said), "\n".join(reasoning), item=item)


def _part(part: dict[str, Any]) -> str:
    # One that was cut may have lost its kind.
    kind = str(part.get("type") or ("text" if "content" in part else "?"))
    if isinstance(part.get("content"), str):
        return part["content"] if kind == "text" else f"[{kind}] {part['content']}"
    if kind == "tool_call":
        return f"[calls {part.get('name')}] {_as_decoded(part.get('arguments'))}"
    if kind == "tool_call_response":
        return plain(part.get("response", part.get("result")))
    if kind == _OMITTED:
        return f"[{_OMITTED}] {part.get('count')} left out here by the length limit of content"
    return f"[{kind}] {plain({key: value for key, value in part.items() if key != 'type'})}"


def _as_decoded(arguments: Any) -> str:
    """Return arguments of a tool call alike, whether they were recorded as an object or as its JSON."""
    if isinstance(arguments, str):
        try:
            return plain(json.loads(arguments))
        except (ValueError, RecursionError):
            return arguments
    return plain(arguments)


def plain(value: Any) -> str:
    """Return a value as it is read: text as it is, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
