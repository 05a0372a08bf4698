"""What one rank, engine or rollout did, moment by moment: of the spans that cover a moment, the shortest counts.

Nested spans thus leave to each what is inside none of its children, whatever the order in which they come.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    #: Takes in that a kind has gained (1) or lost (-1) the time from one moment to another.
    Change = Callable[[int, int, int, int], None]

#: Lengths of what lies below all spans: a step outside of its phases, and below that the time between two steps.
BASE, GROUND = 1 << 61, 1 << 62
#: Share of its stretches that a full lane lets go.
_LET_GO = 4


class Stretch(NamedTuple):
    """A state of a lane from one moment to another, in ns since the epoch; ``step`` is -1 where there is none."""

    start: int
    end: int
    kind: int
    step: int


class _Piece(NamedTuple):
    start: int
    end: int
    kind: int
    step: int
    #: Length of the span that it is of.
    length: int


class Lane:
    """Stretches in order that do not overlap, the latest of them; memory does not depend on the length of the run."""

    __slots__ = ("_ends", "_kinds", "_lengths", "_starts", "_steps", "horizon")

    def __init__(self) -> None:
        self._starts, self._ends = array("q"), array("q")
        self._steps, self._lengths, self._kinds = array("q"), array("q"), array("B")
        #: Nothing is known any more of what was before it.
        self.horizon = 0

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Stretch]:
        """Yield all stretches in order; those of one state that meet are one."""
        rows = zip(self._starts, self._ends, self._kinds, self._steps, strict=True)
        last: Stretch | None = None
        for row in rows:
            if last is not None and last.end == row[0] and last.kind == row[2] and last.step == row[3]:
                last = last._replace(end=row[1])
                continue
            if last is not None:
                yield last
            last = Stretch(*row)
        if last is not None:
            yield last

    def paint(self, span: Stretch, change: Change, length: int = 0) -> None:
        """Take in a span; ``length`` is :data:`BASE` or :data:`GROUND` where all others lie above it."""
        start, end, kind, step = span
        length = length or end - start
        if not self._ends or start >= self._ends[-1]:
            self._append(start, end, kind, step, length)
            change(kind, start, end, 1)
            return
        first = bisect_right(self._ends, start)
        last = bisect_left(self._starts, end)
        gaps = self._gaps(first, last, start, end, length)
        if gaps is None:
            self._replace(first, last, self._merged(first, last, _Piece(start, end, kind, step, length), change))
            return
        for place, gap_start, gap_end in gaps:
            self._insert(place, gap_start, gap_end, kind, step, length)
            change(kind, gap_start, gap_end, 1)

    def _gaps(self, first: int, last: int, start: int, end: int, length: int) -> list[tuple[int, int, int]] | None:
        """Return what no piece covers and its place, the last one first; None where a piece is of a longer span."""
        starts, ends, lengths = self._starts, self._ends, self._lengths
        gaps: list[tuple[int, int, int]] = []
        at = start
        for place in range(first, last):
            if lengths[place] > length:
                return None
            if starts[place] > at:
                gaps.append((place, at, starts[place]))
            at = ends[place]
        if at < end:
            gaps.append((last, at, end))
        gaps.reverse()
        return gaps

    def _merged(self, first: int, last: int, new: _Piece, change: Change) -> list[_Piece]:
        """Return the pieces ``first`` to ``last`` with the new one among them."""
        pieces: list[_Piece] = []
        at = new.start

        def show(until: int) -> None:
            if until > at:
                pieces.append(new._replace(start=at, end=until))
                change(new.kind, at, until, 1)

        for place in range(first, last):
            old = self._piece(place)
            if old.length <= new.length:
                show(old.start)
                pieces.append(old)
            else:
                hidden_from, hidden_to = max(old.start, new.start), min(old.end, new.end)
                change(old.kind, hidden_from, hidden_to, -1)
                if old.start < hidden_from:
                    pieces.append(old._replace(end=hidden_from))
                show(hidden_to)
                if hidden_to < old.end:
                    pieces.append(old._replace(start=hidden_to))
            at = max(at, old.end)
        show(new.end)
        return _joined(pieces)

    def _piece(self, place: int) -> _Piece:
        return _Piece(
            self._starts[place], self._ends[place], self._kinds[place], self._steps[place], self._lengths[place]
        )

    def _append(self, start: int, end: int, kind: int, step: int, length: int) -> None:
        # Neighbours of one base, such as calls of a server that overlap, are one.
        if self._ends and start == self._ends[-1] and length >= BASE:
            last = self._lengths[-1], self._kinds[-1], self._steps[-1]
            if last == (length, kind, step):
                self._ends[-1] = end
                return
        self._insert(len(self._ends), start, end, kind, step, length)

    def _insert(self, place: int, start: int, end: int, kind: int, step: int, length: int) -> None:
        self._starts.insert(place, start)
        self._ends.insert(place, end)
        self._kinds.insert(place, kind)
        self._steps.insert(place, step)
        self._lengths.insert(place, length)

    def _replace(self, first: int, last: int, pieces: list[_Piece]) -> None:
        columns = (self._starts, self._ends, self._kinds, self._steps, self._lengths)
        for column, values in zip(columns, zip(*pieces, strict=True), strict=True):
            column[first:last] = array(column.typecode, values)

    def let_go(self) -> list[Stretch]:
        """Forget the oldest quarter, and return it."""
        number = max(len(self) // _LET_GO, 1)
        gone = [Stretch(*self._piece(place)[:4]) for place in range(number)]
        self.horizon = self._ends[number - 1]
        for column in (self._starts, self._ends, self._kinds, self._steps, self._lengths):
            del column[:number]
        return gone


def _joined(pieces: list[_Piece]) -> list[_Piece]:
    """Make one of those that meet and are of one span, or of one base."""
    joined: list[_Piece] = []
    for piece in pieces:
        if joined and joined[-1].end == piece.start and joined[-1][2:] == piece[2:]:
            joined[-1] = joined[-1]._replace(end=piece.end)
        else:
            joined.append(piece)
    return joined
