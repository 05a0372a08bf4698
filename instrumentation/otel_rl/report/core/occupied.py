"""How long calls kept a step or a rollout busy: those that run at once count once, in bounded memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from otel_rl.report.core.over_time import OverTime
from otel_rl.semconv import attributes as names
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from collections.abc import Hashable

    from otel_rl.store.reader import Span

#: Stretches of all keys that are kept to compare with. What comes later than that of another process counts as its own.
_MOST = 20_000


class Occupied:
    """Seconds by key and step in which a call was open; each call adds what those before it leave open.

    Attributes:
        steps: of all calls of a key.
        rollouts: of the calls of each rollout, whose seconds are added up as the time of the rollouts is.
    """

    def __init__(self, cells: int) -> None:
        self.steps, self.rollouts = OverTime(cells), OverTime(cells)
        self._all, self._of_rollouts = Stretches(), Stretches()

    def add(self, key: Hashable, span: Span, end: int) -> None:
        """Take in a call that was open from the start of its span to ``end``, in ns since the epoch."""
        get, attempt = span.attributes.get, span.process.attempt
        iteration = int_or_none(get(names.RL_LOOP_ITERATION))
        # A rollout has a trace of its own; its id may be that of the task, the same in all samples of a group that run
        # at once. So has an agent that nothing else called, without an id.
        rollout = get(names.RL_ROLLOUT_ID), span.trace_id
        more = self._all.add(key, span.start, end)
        more_of_rollout = self._of_rollouts.add((key, rollout), span.start, end)
        self.steps.add(key, iteration, span.end, more, attempt)
        self.rollouts.add(key, iteration, span.end, more_of_rollout, attempt)

    def leave_out(self, attempts: frozenset[tuple[int, ...]]) -> None:
        """Leave the steps of these attempts out of both series."""
        self.steps.leave_out(attempts)
        self.rollouts.leave_out(attempts)


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
