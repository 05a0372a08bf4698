"""Which messages of a model call no call before it in its trajectory has told.

A call sends the history again: as it was, with an answer changed, without its oldest turns, or with a summary in their
place. Its messages are aligned with those of an earlier call by their order, role, ids of tool calls and text. So one
that is said a second time, such as the same result of a tool, is another message. What follows the last answer in a
history is new unless it stands at the same place in an earlier call: a conversation goes on with it. Behind the answer
of the call just before it is new in any case.
"""

from __future__ import annotations

import re
from collections import deque
from difflib import SequenceMatcher
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_rl.report.core.messages import Message

#: Most earlier calls, and the most of them that share the most messages, to align with.
MOST, CLOSEST = 256, 3
#: Most pairs of messages to compare of two calls; of more only the beginning is aligned.
_MOST_PAIRS = 250_000
#: End of a text that was cut for its length, which it says.
_CUT = re.compile(r"\.\.\. \[truncated, (\d+) characters\]\Z")
_ASSISTANT = "assistant"


class _Call(NamedTuple):
    """An earlier call: what it was sent with and has answered."""

    messages: list[Message]
    kinds: list[int]
    different: frozenset[int]
    #: How many messages it was sent with.
    sent: int
    number: int


class ToldMessages:
    """The messages that the calls of a trajectory have told so far."""

    def __init__(self) -> None:
        self._kinds = _SameMessages()
        self._calls: deque[_Call] = deque(maxlen=MOST)

    def new_of(self, sent: Sequence[Message], answered: Sequence[Message], *, is_known: bool) -> list[Message]:
        """Return what a further call adds; ``is_known``: another span tells the same call, its answer too."""
        messages = [*sent, *answered]
        kinds = list(map(self._kinds.of, messages))
        if is_known:
            aligned = last = len(messages)
        else:
            aligned, last = len(sent), _end_of_the_last_answer(sent)
        told = self._told(messages[:aligned], kinds[:aligned], last)
        number = self._calls[-1].number + 1 if self._calls else 0
        self._calls.append(_Call(messages, kinds, frozenset(kinds), len(sent), number))
        new = [message for message, is_told in zip(messages[:aligned], told, strict=True) if not is_told]
        return new + messages[aligned:]

    def _told(self, messages: Sequence[Message], kinds: list[int], last: int) -> list[bool]:
        """Return of each message whether the closest of the earlier calls has it."""
        going_on = _continued(self._calls[-1], kinds, last) if self._calls else []
        best = _told_at(going_on, self._calls[-1], messages) if going_on else [False] * len(messages)
        if going_on and all(best[:last]):
            return best
        for call in self._closest(kinds):
            # Of two as good the one by which the conversation goes on.
            for places in (_continued(call, kinds, last), _resent(call, kinds, last)):
                best = max(best, _told_at(places, call, messages), key=sum)
        if going_on:
            best[last:] = [False] * (len(best) - last)
        return best

    def _closest(self, kinds: list[int]) -> list[_Call]:
        different = frozenset(kinds)
        shared = [(len(different & call.different), call.number, call) for call in self._calls]
        return [
            call for _, _, call in nlargest(CLOSEST, (each for each in shared if each[0]), key=lambda each: each[:2])
        ]


def _end_of_the_last_answer(sent: Sequence[Message]) -> int:
    return max((place + 1 for place, message in enumerate(sent) if message.role == _ASSISTANT), default=0)


def _continued(call: _Call, kinds: list[int], last: int) -> list[int | None]:
    """Return the places in an earlier call whose answer, with what was asked, is the last one here; empty without."""
    answers = call.kinds[call.sent :]
    if not last or kinds[last - 1] not in answers:
        return []
    first, same = last - 1, 0
    while same < min(first, call.sent) and kinds[first - 1 - same] == call.kinds[call.sent - 1 - same]:
        same += 1
    if not same:
        return []
    places = _places(call.kinds[: call.sent - same], kinds[: first - same])
    places += range(call.sent - same, call.sent)
    return [*places, call.sent + answers.index(kinds[first]), *[None] * (len(kinds) - last)]


def _resent(call: _Call, kinds: list[int], last: int) -> list[int | None]:
    """Return the places in an earlier call; what is behind the last answer has one only directly behind it there."""
    places = _places(call.kinds, kinds)
    for index in range(last, len(places)):
        before = places[index - 1] if index else -1
        if before is None or places[index] != before + 1:
            return [*places[:index], *[None] * (len(places) - index)]
    return places


def _places(known: list[int], kinds: list[int]) -> list[int | None]:
    """Return for each message its place in an earlier call, in order; None where it has none."""
    same = 0
    while same < min(len(known), len(kinds)) and known[same] == kinds[same]:
        same += 1
    places: list[int | None] = [*range(same), *[None] * (len(kinds) - same)]
    if (len(known) - same) * (len(kinds) - same) <= _MOST_PAIRS:
        matcher = SequenceMatcher(None, known[same:], kinds[same:], autojunk=False)
        for first, second, size in matcher.get_matching_blocks():
            places[same + second : same + second + size] = range(same + first, same + first + size)
    return places


def _told_at(places: list[int | None], call: _Call, messages: Sequence[Message]) -> list[bool]:
    """Return of each message whether an earlier call has it at its place; empty without places."""
    return [
        place is not None and not _reasons_anew(call.messages[place], message)
        for place, message in zip(places, messages, strict=False)
    ]


def _reasons_anew(known: Message, message: Message) -> bool:
    return bool(message.reasoning) and not _is_same_text(known.reasoning, message.reasoning)


class _SameMessages:
    """Numbers of messages: those that say the same have the same."""

    def __init__(self) -> None:
        self._exact: dict[object, int] = {}
        #: By what a cut text still tells: its length.
        self._alike: dict[object, list[tuple[Message, int]]] = {}

    def of(self, message: Message) -> int:
        """Return the number of a message."""
        exact = (message.role, message.parts or ("" if message.reasoning else message.text))
        number = self._exact.get(exact)
        if number is None:
            number = self._exact[exact] = self._cut_of(message)
        return number

    def _cut_of(self, message: Message) -> int:
        """Return the number of the message that this one is a cut version of, or that was cut; else a new one."""
        parts = tuple((part.kind, part.identifier, _length(part.text)) for part in message.parts)
        alike = self._alike.setdefault((message.role, parts), [])
        for known, number in alike:
            pairs = zip(known.parts, message.parts, strict=True)
            if parts and all(_is_same_text(first.text, second.text) for first, second in pairs):
                return number
        number = len(self._exact)
        alike.append((message, number))
        return number


def _length(text: str) -> int:
    cut = _CUT.search(text)
    return int(cut[1]) if cut else len(text)


def _is_same_text(first: str, second: str) -> bool:
    """Return whether two texts are the same, as far as what was cut of them can tell."""
    if first == second:
        return True
    begins = [_CUT.sub("", text) for text in (first, second)]
    if begins == [first, second] or _length(first) != _length(second):
        return False
    return begins[0].startswith(begins[1]) or begins[1].startswith(begins[0])
