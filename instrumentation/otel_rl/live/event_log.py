"""The latest events of a run, so that a browser that was away gets what it has missed, and not the whole page again."""

from __future__ import annotations

import json
from collections import deque
from typing import Any, NamedTuple

#: Most events that are kept, and most bytes of them.
_MOST, _MOST_BYTES = 64, 8 * 1024 * 1024


class ServerSentEvent(NamedTuple):
    """A server-sent event; ``number`` is its id, 0 for one that has none: a later one of its kind replaces it."""

    kind: str
    data: bytes
    number: int = 0

    @property
    def wire(self) -> bytes:
        """Its bytes; ``data`` is JSON on one line."""
        head = f"id: {self.number}\n".encode() if self.number else b""
        return b"%bevent: %b\ndata: %b\n\n" % (head, self.kind.encode(), self.data)


def event(kind: str, content: Any) -> ServerSentEvent:
    """Return an event without an id."""
    return ServerSentEvent(kind, json.dumps(content).encode())


class EventLog:
    """Events with ids that follow each other."""

    def __init__(self) -> None:
        self._events: deque[ServerSentEvent] = deque()
        self._bytes = 0
        #: Id of the last one; those of another start of the server are smaller than its first, in all likelihood.
        self.number = 0

    def append(self, kind: str, data: bytes) -> ServerSentEvent:
        """Append an event; of too many, the oldest are forgotten."""
        self.number += 1
        added = ServerSentEvent(kind, data, self.number)
        self._events.append(added)
        self._bytes += len(data)
        while len(self._events) > _MOST or (self._bytes > _MOST_BYTES and len(self._events) > 1):
            self._bytes -= len(self._events.popleft().data)
        return added

    def since(self, number: int) -> list[ServerSentEvent] | None:
        """Return what came after the event ``number``; None where that is not known any more."""
        if number == self.number:
            return []
        first = self._events[0].number if self._events else self.number + 1
        if not first - 1 <= number <= self.number:
            return None
        return [kept for kept in self._events if kept.number > number]
