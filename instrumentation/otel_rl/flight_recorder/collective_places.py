"""The records of collectives, written on the hot path: single words by index, no lock, nothing that grows.

Places are given out by the segment. The writer of a segment is what the hot path takes apart, so that it needs no
attribute and no call of ours::

    take, began, what, began_copy, ended = places.writer
    place = take()                  # IndexError: the segment is used up, `begin` finds another
    began[place] = moment
    what[place] = codes
    began_copy[place] = moment
    ...                             # the collective
    ended[place] = moment
"""

from __future__ import annotations

import time
from itertools import count
from sys import getrefcount
from typing import TYPE_CHECKING

from otel_rl.flight_recorder import layout

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable

    View = memoryview[float]
    Writer = tuple[Callable[[], int], View, View, View, View]
    #: Where a record is: views of what it is and of its end, and its place there.
    Place = tuple[View, View, int]

clock = time.monotonic
#: Numbers this small are objects that Python has already.
_ALL = list(range(layout.SEGMENT))[::-1]


class CollectivePlaces:
    """Gives out the segments of the ring in order, without the places whose record is open."""

    def __init__(self, buffer: mmap.mmap) -> None:
        part = memoryview(buffer)[layout.COLLECTIVES_AT : layout.SIZE].cast("d")
        words = layout.SEGMENT * layout.COLLECTIVE_WORDS
        self._segments = [
            tuple(
                part[start + word : start + words : layout.COLLECTIVE_WORDS] for word in range(layout.COLLECTIVE_WORDS)
            )
            for start in range(0, words * layout.SEGMENTS, words)
        ]
        self._next_segment = count().__next__
        #: References to a view while no operation writes there.
        self._unused = _references(self._segments[0])
        #: Of the segment in use. None: nothing is to be written any more.
        self.writer: Writer | None = self._next_writer()

    def _next_writer(self) -> Writer:
        """Take the next segment. Two threads at once take two, which does no harm."""
        number = self._next_segment() % layout.SEGMENTS
        segment = self._segments[number]
        # Whoever has a record open refers to the views, to end it. To ask that takes a hundredth of looking at all.
        is_unused = _references(segment) == self._unused
        began, what, began_copy, ended = segment
        free = _ALL.copy() if is_unused else [place for place in _ALL if ended[place] >= began[place]]
        return free.pop, began, what, began_copy, ended

    def begin(self, what: float, moment: float) -> Place | None:
        """Begin a record; None where nothing is written any more, or all places are open."""
        for _ in range(layout.SEGMENTS):
            writer = self.writer
            if writer is None:
                return None
            take, began, whats, began_copy, ended = writer
            try:
                place = take()
            except IndexError:
                following = self._next_writer()
                if self.writer is writer:
                    self.writer = following
                continue
            began[place] = moment
            whats[place] = what
            began_copy[place] = moment
            return whats, ended, place
        return None

    def stop(self) -> None:
        """Begin no more records; those that are open can end."""
        self.writer = None

    def release(self) -> None:
        """Write no more, in no thread: after a fork the file is the parent's."""
        self.stop()
        for views in self._segments:
            for view in views:
                view.release()


def _references(segment: tuple[View, ...]) -> int:
    """Return the number of references to the view of the ends."""
    return getrefcount(segment[-1])


def end(place: Place, moment: float, failed: bool) -> None:
    """End a record."""
    whats, ended, number = place
    try:
        if failed:
            whats[number] += layout.HAS_FAILED
        ended[number] = moment
    except ValueError:
        # The views are released: this is a forked child, and the record is its parent's.
        return
