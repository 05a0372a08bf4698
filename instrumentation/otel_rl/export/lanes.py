"""Lanes of a track: on each, one span ends before the next begins, or lies whole inside of it.

Perfetto drops a slice that begins inside of another one of its track and ends after it.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

#: Lanes of a track that are drawn as threads, to which arrows can lead. Further ones are asynchronous tracks.
THREADS = 32


class OpenSpan(NamedTuple):
    """A span on a lane that has not ended where the next one begins; times in ns."""

    key: int
    start: int
    stop: int
    lane: int


class Lanes:
    """Puts the spans of one track on lanes; they come by start, the longer of equal ones first."""

    def __init__(self) -> None:
        self._threads: list[list[OpenSpan]] = []
        #: Ends and numbers of asynchronous lanes, the next one that will be free first.
        self._asynchronous: list[tuple[int, int]] = []

    def place(self, key: int, parent: int | None, start: int, stop: int) -> tuple[int, OpenSpan | None]:
        """Return the lane of a span, and its parent where that is open on another lane of this track."""
        free, found = -1, None
        for number, spans in enumerate(self._threads):
            while spans and spans[-1].stop <= start:
                spans.pop()
            if not spans:
                free = number if free < 0 else free
            elif parent is not None:
                if spans[-1].key == parent and stop <= spans[-1].stop:
                    spans.append(OpenSpan(key, start, stop, number))
                    return number, None
                found = found or next((span for span in spans if span.key == parent), None)
        if free < 0:
            if len(self._threads) == THREADS:
                return self._place_asynchronous(start, stop), found
            free = len(self._threads)
            self._threads.append([])
        self._threads[free].append(OpenSpan(key, start, stop, free))
        return free, found

    def _place_asynchronous(self, start: int, stop: int) -> int:
        if self._asynchronous and self._asynchronous[0][0] <= start:
            _, lane = heappop(self._asynchronous)
        else:
            lane = THREADS + len(self._asynchronous)
        heappush(self._asynchronous, (stop, lane))
        return lane
