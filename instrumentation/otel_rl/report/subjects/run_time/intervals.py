"""Stretches of time, in ns since the epoch, and what several of them cover."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Stretches that are kept apart. Beyond it those with the smallest gaps become one.
_MOST = 20_000
_SMALLEST_GAP = 1_000_000


class Intervals:
    """A set of moments; memory does not depend on how many stretches were added."""

    def __init__(self, stretches: Iterable[tuple[int, int]] = ()) -> None:
        self._stretches = merged(stretches)

    def add(self, start: int, end: int) -> None:
        """Add a stretch; one that begins where the last one ends is part of that."""
        if end <= start:
            return
        last = self._stretches[-1] if self._stretches else None
        if last is not None and last[0] <= start <= last[1]:
            self._stretches[-1] = last[0], max(last[1], end)
            return
        self._stretches.append((start, end))
        gap = 0
        while len(self._stretches) > _MOST:
            self._stretches = merged(self._stretches, gap)
            gap = 2 * gap or _SMALLEST_GAP

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """All stretches in order, which neither meet nor overlap."""
        self._stretches = merged(self._stretches)
        return self._stretches

    @property
    def seconds(self) -> float:
        """Time that they cover, in s."""
        return sum(end - start for start, end in self.stretches) / 1e9

    def __bool__(self) -> bool:
        """Return whether there is a stretch."""
        return bool(self._stretches)

    def __or__(self, others: Intervals) -> Intervals:
        """Return what one or the other covers."""
        return Intervals([*self.stretches, *others.stretches])

    def within(self, start: int, end: int) -> Intervals:
        """Return what lies between two moments."""
        cut = ((max(first, start), min(last, end)) for first, last in self.stretches)
        return Intervals((first, last) for first, last in cut if first < last)

    def without(self, others: Intervals) -> Intervals:
        """Return what ``others`` do not cover."""
        left, removed = [], iter([*others.stretches, (1 << 80, 1 << 80)])
        out_start, out_end = next(removed)
        for start, end in self.stretches:
            position = start
            while out_end <= position:
                out_start, out_end = next(removed)
            while out_start < end:
                if position < out_start:
                    left.append((position, out_start))
                position = max(position, out_end)
                if out_end >= end:
                    break
                out_start, out_end = next(removed)
            if position < end:
                left.append((position, end))
        return Intervals(left)


def merged(stretches: Iterable[tuple[int, int]], gap: int = 0) -> list[tuple[int, int]]:
    """Return ``stretches`` in order, as one where no more than ``gap`` ns lie between them."""
    ordered: list[tuple[int, int]] = []
    for start, end in sorted(stretches):
        if ordered and start <= ordered[-1][1] + gap:
            ordered[-1] = ordered[-1][0], max(ordered[-1][1], end)
        else:
            ordered.append((start, end))
    return ordered
