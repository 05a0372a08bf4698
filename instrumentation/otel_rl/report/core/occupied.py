"""How long the phases of a step kept it busy: those that run at once count once, in bounded memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


#: Stretches of all keys that are kept to compare with. What comes later than that of another process counts as its own.
_MOST = 20_000


class Stretches:
    """Stretches of time by key, kept as starts and ends in order, which neither meet nor overlap."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[list[int], list[int]]] = {}
        self._number = 0

    def add(self, key: Hashable, start: int, end: int) -> float:
        """Return the seconds of a stretch that those before it of this key do not cover."""
        starts, ends = self._kept.setdefault(key, ([], []))
        first, last = bisect_left(ends, start), bisect_right(starts, end)
        known = sum(min(ends[at], end) - max(starts[at], start) for at in range(first, last))
        more = max(end - start - known, 0)
        whole = min([start, *starts[first:last]]), max([end, *ends[first:last]])
        starts[first:last], ends[first:last] = [whole[0]], [whole[1]]
        self._number += 1 - (last - first)
        if self._number > _MOST:
            self._make_room()
        return more / 1e9

    def forget(self, key: Hashable) -> None:
        """Forget a key: nothing more comes of it."""
        starts, _ = self._kept.pop(key, ([], []))
        self._number -= len(starts)

    def _make_room(self) -> None:
        """Forget the earlier half of each key's stretches; where that is not enough, the keys that came first."""
        for kept in self._kept.values():
            for moments in kept:
                del moments[: len(moments) // 2]
        if len(self._kept) > _MOST // 2:
            for key in list(self._kept)[: len(self._kept) // 2]:
                del self._kept[key]
        self._number = sum(len(starts) for starts, _ in self._kept.values())
