"""What can be seen of stretches of time that lie above each other: of those that cover a moment, the uppermost one."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_NEVER = 1 << 63
#: Stretches from which on those that have ended below a longer one are let go.
_FEW = 64

_Layer = tuple[int, int, int, int, int]


class Stretch(NamedTuple):
    """A state from one moment to another, in ns since the epoch; ``step`` is -1 where there is none."""

    start: int
    end: int
    kind: int
    step: int


def paint(rows: Iterable[Sequence[int]]) -> Iterator[Stretch]:
    """Yield what can be seen, in order; those of one state that meet are one.

    Of nested spans each has what is inside none of its children. Memory depends on nothing but how many there are at
    once.

    Args:
        rows: begin, end, kind, layer and step, ordered by their begin. The lowest number of a layer lies above the
            others; in a layer the shortest stretch does.
    """
    last: Stretch | None = None
    for one in _seen(rows):
        if last is not None and last.end == one.start and last[2:] == one[2:]:
            last = last._replace(end=one.end)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _seen(rows: Iterable[Sequence[int]]) -> Iterator[Stretch]:
    open_now: list[_Layer] = []
    at, most = 0, _FEW
    for start, end, kind, layer, step in rows:
        yield from _until(start, at, open_now)
        at = start
        heappush(open_now, (layer, end - start, end, kind, step))
        if len(open_now) > most:
            open_now = [one for one in open_now if one[2] > at]
            heapify(open_now)
            most = max(2 * len(open_now), _FEW)
    yield from _until(_NEVER, at, open_now)


def _until(moment: int, at: int, open_now: list[_Layer]) -> Iterator[Stretch]:
    while open_now and at < moment:
        _, _, end, kind, step = open_now[0]
        if end <= at:
            heappop(open_now)
            continue
        until = min(end, moment)
        yield Stretch(at, until, kind, step)
        at = until
