"""The body of a streamed answer as it goes past: its events one by one, without reading ahead or keeping what is done.

Engines stream server-sent events, one JSON object in each ``data:`` line. What begins in another way, such as the JSON
of a refusal, is one body, of which a short one is kept. Ollama streams an object in each line.
https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Longest body that is no stream of events, in bytes; one that is longer is let go.
LONGEST = 262_144
#: Longest line: each event of SGLang has all text, tokens and logprobs so far, 12,000 tokens some 400 KB.
LONGEST_LINE = 4_194_304
_DATA = b"data:"
#: How a stream of events begins, after the mark of its encoding and empty lines.
_FIELDS = (_DATA, b"event:", b"id:", b"retry:", b":")
_LONGEST_FIELD = max(map(len, _FIELDS))
_LINE_FEED = ord("\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventStream:
    """Gives ``event`` the data of each event, as soon as its line is complete; empty data for a line that is let go."""

    __slots__ = ("_event", "_field", "_is_events", "_kept", "_length")

    def __init__(self, event: Callable[[bytes], None], *, whole_lines: bool = False) -> None:
        self._event = event
        #: How a line with data begins.
        self._field = b"" if whole_lines else _DATA
        #: None until the first bytes say it.
        self._is_events: bool | None = whole_lines or None
        #: Of the line that is not complete yet, or of the body: its beginning, where it is too long.
        self._kept = bytearray()
        self._length = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if self._is_events is None:
            chunk = self._beginning(chunk)
            if self._is_events is None:
                return
        if not self._is_events:
            self._keep(chunk)
            return
        end = chunk.find(b"\n")
        if end < 0:
            self._keep(chunk)
            return
        if not self._length and end == len(chunk) - 2:
            # One event in a chunk, as engines send them.
            self._line(chunk[:end])
            if chunk[end + 1] != _LINE_FEED:
                self._keep(chunk[end + 1 :])
            return
        start = 0
        if self._length:
            self._keep(chunk[:end])
            self._kept_line()
            start, end = end + 1, chunk.find(b"\n", end + 1)
        while end >= 0:
            self._line(chunk[start:end])
            start, end = end + 1, chunk.find(b"\n", end + 1)
        if start < len(chunk):
            self._keep(chunk[start:])

    def end(self) -> bytes | None:
        """End the stream; return the body, where it was no stream of events and not too long."""
        if self._is_events:
            self._kept_line()
            return None
        length, left = self._length, self._taken()
        return left if 0 < length <= LONGEST else None

    def _beginning(self, chunk: bytes) -> bytes:
        """All bytes so far, once they say what this is."""
        whole = self._taken() + chunk
        start = whole.removeprefix(_BYTE_ORDER_MARK).lstrip(b"\r\n")
        if start.startswith(_FIELDS):
            self._is_events = True
        elif _BYTE_ORDER_MARK.startswith(whole):
            self._keep(whole)
        elif len(start) >= _LONGEST_FIELD or not any(field.startswith(start) for field in _FIELDS):
            self._is_events = False
        else:
            self._keep(whole)
        return start

    def _keep(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length <= (LONGEST_LINE if self._is_events else LONGEST):
            self._kept += piece
        else:
            # Enough to recognise the field.
            self._kept = self._kept[: len(_DATA)] + piece[: len(_DATA)]

    def _taken(self) -> bytes:
        kept, self._kept, self._length = self._kept, bytearray(), 0
        return bytes(kept)

    def _kept_line(self) -> None:
        is_whole = self._length <= LONGEST_LINE
        line = self._taken()
        if is_whole:
            self._line(line)
        elif line.startswith(self._field):
            self._event(b"")

    def _line(self, line: bytes) -> None:
        if not line.startswith(self._field):
            return
        if len(line) > LONGEST_LINE:
            self._event(b"")
            return
        data = line[len(self._field) :].strip()
        if data:
            self._event(data)
