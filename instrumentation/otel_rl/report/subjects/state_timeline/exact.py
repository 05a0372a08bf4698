"""Stretches that the page has exactly: the latest of all lanes, and those of the slowest step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.subjects.state_timeline.asked import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_rl.report.core.stretches import Stretch
    from otel_rl.report.subjects.state_timeline.asked import Window

#: Stretches on the page: those of the latest steps, and those of the slowest one.
LATEST, SLOWEST = 30_000, 8_000
#: Pixels of a wide screen: no stretch below one of them of a step can be seen.
_PIXELS = 4000


class Merged(NamedTuple):
    """Stretches that follow each other as one; ``share`` is that of its state, in percent."""

    start: int
    end: int
    kind: int
    step: int
    share: int = 100


class Exact:
    """The latest stretches of all lanes in a window of time, about as many as there is room for.

    Args:
        lanes: how many there are.
        most: stretches that there is room for.
        first: begin of the window.
        last: what came after it is never let go: where it is too much, neighbours become one.
        end: end of the window.
    """

    def __init__(self, lanes: int, most: int, first: int, last: int, end: int) -> None:
        self.lanes: list[list[Merged]] = [[] for _ in range(lanes)]
        #: Since when they are kept, and the shortest one where shorter ones are merged; in ns.
        self.since, self.shortest = first, 0
        self._most, self._last, self._end = most, last, end
        self._number = 0

    def add(self, lane: int, one: Stretch) -> None:
        """Add a stretch of a lane, the earliest first."""
        if one.end <= self.since or one.start >= self._end:
            return
        self.lanes[lane].append(Merged(*one))
        self._number += 1
        if self._number > 2 * self._most + len(self.lanes):
            self._let_go()
            if self._number > 2 * self._most:
                self._fit()

    def close(self, until: int) -> None:
        """Keep no more than there is room for, and nothing after a moment."""
        self._let_go()
        self._end = min(self._end, until)
        self._cut()
        self._fit()

    def _let_go(self) -> None:
        starts = sorted(one.start for lane in self.lanes for one in lane)
        # Of each lane one more begins before.
        room = max(self._most - len(self.lanes), 1)
        if len(starts) > room:
            self.since = max(self.since, min(starts[-room], self._last))
            self._cut()

    def _cut(self) -> None:
        self.lanes = [
            [
                one._replace(start=max(one.start, self.since), end=min(one.end, self._end))
                for one in lane
                if one.end > self.since and one.start < self._end
            ]
            for lane in self.lanes
        ]
        self._number = sum(map(len, self.lanes))

    def _fit(self) -> None:
        while self._number > max(self._most, len(self.lanes)):
            self.shortest = 2 * self.shortest or max((self._end - self.since) // _PIXELS, 1)
            self.lanes = [_merged(lane, self.shortest) for lane in self.lanes]
            self._number = sum(map(len, self.lanes))


def latest(lanes: int, steps: list[Window], start: int, end: int) -> Exact:
    """Return room for the latest stretches of a run between two moments; the last step is among them."""
    first = steps[0].start if len(steps) >= STEPS else start
    return Exact(lanes, LATEST, first, steps[-1].start if steps else end, end)


def of_step(lanes: int, step: Window) -> Exact:
    """Return room for the stretches of a step."""
    return Exact(lanes, SLOWEST, step.start, step.start, step.end)


def _merged(stretches: Iterable[Merged], shortest: int) -> list[Merged]:
    """Return stretches of which neighbours shorter than ``shortest`` ns are one, in the state that took most of it."""
    result: list[Merged] = []
    group: list[Merged] = []
    for one in stretches:
        if group and (one.end - group[0].start > shortest or one.start - group[-1].end > shortest):
            result.append(_one_of(group))
            group = []
        group.append(one)
    return [*result, _one_of(group)] if group else result


def _one_of(group: Sequence[Merged]) -> Merged:
    if len(group) == 1:
        return group[0]
    times: dict[int, float] = {}
    for one in group:
        times[one.kind] = times.get(one.kind, 0) + (one.end - one.start) * one.share / 100
    kind = max(times, key=times.__getitem__)
    start, end = group[0].start, group[-1].end
    return Merged(start, end, kind, group[0].step, max(round(100 * times[kind] / (end - start)), 1))
