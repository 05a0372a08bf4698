"""The lanes as one short text for the page, whose script draws of them what a reader chooses.

Times are whole microseconds since the first record. Of each lane ``exact`` has its stretches as
``gap,length,state[,change of the step[,share]]``: the latest steps and the slowest one; ``bins`` has two characters for
each bin of the whole run, the state that took most of it and the share of that state in tenths.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from otel_rl.report.core.loops import written
from otel_rl.report.subjects.state_timeline.states import STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_rl.report.subjects.state_timeline.aggregate import LaneOfProcess, StateTimeline, Window
    from otel_rl.report.subjects.state_timeline.lanes import Stretch
    from otel_rl.report.subjects.state_timeline.rollouts import DrawnRollout

#: Stretches on the page: those of the latest steps, those of the slowest one, and those of rollouts.
EXACT, SLOWEST, OF_ROLLOUTS = 30_000, 8_000, 8_000
#: Bytes of all lanes on the page at most: bins (2 each), stretches (32 each at most), and names, steps and marks.
BYTES = 2 * (1 << 17) + 32 * (EXACT + SLOWEST + OF_ROLLOUTS) + (1 << 20)
#: Pixels of a wide screen: no stretch below one of them of a step can be seen.
_PIXELS = 4000
_NAME = 60
_FIRST_LETTER, _TENTHS = 65, 9
#: Seconds of a bin below which there is a rounding error.
_NOTHING = 1e-7


class Merged(NamedTuple):
    """Stretches that follow each other as one; ``share`` is that of its state, in percent."""

    start: int
    end: int
    kind: int
    step: int
    share: int = 100


class Packed(NamedTuple):
    """The text, and what it leaves out: since when stretches are exact (ns since the epoch, 0: all of them)."""

    text: str
    since: int
    #: The shortest stretch of the slowest and of the latest steps, in ns, where shorter ones are merged.
    shortest: int
    rollouts: int


def pack(timeline: StateTimeline, own: Mapping[int | None, float] | None = None) -> Packed:
    """Return all lanes as a text of at most :data:`BYTES` bytes; ``own`` has the mean own work of a rank in a step."""
    lanes, zero = timeline.drawn, timeline.start
    since, latest, shortest = _latest(timeline, lanes)
    slowest = timeline.slowest
    kept: list[list[Merged]] = [[] for _ in lanes]
    windows = [] if since <= zero else [[_us(since - zero), None]]
    if slowest is not None and slowest.start < since:
        kept, coarse = _fitting(
            [[_cut(one, slowest) for one in timeline.of_window(lane, slowest, since)] for lane in lanes],
            SLOWEST,
            slowest.end - slowest.start,
        )
        shortest = max(shortest, coarse)
        windows.insert(0, [_us(slowest.start - zero), _us(min(slowest.end, since) - zero)])
    steps = timeline.steps
    if slowest is not None and slowest not in steps:
        steps.insert(0, slowest)
    rollouts, chosen = _rollouts(timeline, steps)
    content = {
        "states": [[state.name, state.colour, state.waits] for state in STATES],
        "end": _us(timeline.end - zero),
        "bins": [(timeline.bins.start - zero) / 1e3, timeline.bins.width / 1e3],
        "windows": windows,
        "lanes": [
            {
                "name": lane.name[:_NAME],
                "group": lane.group,
                "rank": lane.rank,
                "own": (own or {}).get(lane.rank),
                "node": lane.node[:_NAME],
                "exact": _written([*early, *late], zero),
                "bins": _bins(timeline, lane) if windows else "",
                "totals": [float(f"{total:.4g}") for total in timeline.totals(lane)],
            }
            for lane, early, late in zip(lanes, kept, latest, strict=True)
        ],
        "steps": [[_label(step, steps), _us(step.start - zero), _us(step.end - zero)] for step in steps],
        "slowest": steps.index(slowest) if slowest is not None else -1,
        "rollouts": [
            {"name": name[:_NAME], "exact": _written([Merged(*part) for part in stretches], zero)}
            for name, stretches in rollouts.drawn
        ],
        "chosen": chosen,
        "syncs": [_us(moment - zero) for moment in timeline.syncs],
    }
    text = json.dumps(content, separators=(",", ":"))
    return Packed(text, since if windows else 0, shortest, timeline.rollouts.number - len(rollouts.drawn))


def _latest(timeline: StateTimeline, lanes: list[LaneOfProcess]) -> tuple[int, list[list[Merged]], int]:
    """Return since when all stretches are on the page, these by lane, and the shortest one where some are merged."""
    steps = timeline.steps
    horizon = max((lane.lane.horizon for lane in lanes), default=0)
    first = max(steps[0].start if len(timeline.steps) >= timeline.most_steps else timeline.start, horizon)
    stretches = [[one for one in lane.lane if one.end > first] for lane in lanes]
    starts = sorted(one.start for lane in stretches for one in lane)
    since = first
    # Of each lane one more begins before.
    room = max(EXACT - len(lanes), 1)
    if len(starts) > room:
        since = max(starts[-room], first)
        if steps:
            since = min(since, max(steps[-1].start, first))
    late = [[Merged(max(one.start, since), *one[1:]) for one in lane if one.end > since] for lane in stretches]
    fitting, shortest = _fitting(late, EXACT, timeline.end - since)
    return since, fitting, shortest


def _fitting(lanes: list[list[Merged]], most: int, length: int) -> tuple[list[list[Merged]], int]:
    """Merge the shortest stretches until there are no more than ``most``; return the bound too, 0 for none."""
    shortest = 0
    while sum(map(len, lanes)) > max(most, len(lanes)):
        shortest = 2 * shortest or max(length // _PIXELS, 1)
        lanes = [merged(lane, shortest) for lane in lanes]
    return lanes, shortest


def merged(stretches: Iterable[Merged], shortest: int) -> list[Merged]:
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


def _cut(one: Stretch, window: Window) -> Merged:
    return Merged(max(one.start, window.start), min(one.end, window.end), one.kind, one.step)


def _us(nanoseconds: int) -> int:
    return nanoseconds // 1000


def _written(stretches: list[Merged], zero: int) -> str:
    """Return the stretches of a lane as text."""
    parts = []
    at, step = 0, -1
    for one in stretches:
        start, end = _us(one.start - zero), _us(one.end - zero)
        part = f"{start - at},{end - start},{one.kind}"
        if one.step != step or one.share != 100:  # noqa: PLR2004 - percent
            part += f",{one.step - step}"
        if one.share != 100:  # noqa: PLR2004 - percent
            part += f",{one.share}"
        parts.append(part)
        at, step = end, one.step
    return ";".join(parts)


def _bins(timeline: StateTimeline, lane: LaneOfProcess) -> str:
    table = timeline.bins.table(lane.place, len(STATES))
    most = table.argmax(axis=0)
    tenths = np.rint(table.max(axis=0) / (timeline.bins.width / 1e9) * _TENTHS).astype(int)
    return "".join(
        f"{chr(_FIRST_LETTER + kind)}{min(share, _TENTHS)}" if seconds > _NOTHING else ".0"
        for kind, share, seconds in zip(most, tenths, table.max(axis=0), strict=True)
    )


def _label(step: Window, steps: list[Window]) -> str:
    several = len({other.attempt for other in steps}) > 1
    return f"{step.iteration} (attempt {written(step.attempt)})" if several else str(step.iteration)


class _RolloutsOfPage:
    """Rollouts that are taken to the page, each once, until there are too many stretches."""

    def __init__(self) -> None:
        #: Name and stretches of each.
        self.drawn: list[tuple[str, list[Stretch]]] = []
        self._room = OF_ROLLOUTS
        self._places: dict[int, int] = {}

    def places_of(self, rollouts: list[DrawnRollout]) -> list[int]:
        """Take them to the page as far as there is room; return their places."""
        for one in rollouts:
            if self._room > 0 and id(one) not in self._places:
                stretches = one.stretches
                self._room -= len(stretches)
                self._places[id(one)] = len(self.drawn)
                self.drawn.append((one.name, stretches))
        return [self._places[id(one)] for one in rollouts if id(one) in self._places]


def _rollouts(timeline: StateTimeline, steps: list[Window]) -> tuple[_RolloutsOfPage, dict[str, Any]]:
    """Return the rollouts of the page, and which of them belong to the run and to each step."""
    of_page, of_steps = _RolloutsOfPage(), timeline.rollouts.of_steps()
    latest, longest = of_page.places_of(timeline.rollouts.latest), of_page.places_of(timeline.rollouts.longest)
    chosen: dict[str, Any] = {"latest": latest, "longest": longest, "steps": {}}
    slowest = timeline.slowest
    first = None if slowest is None else (slowest.attempt, slowest.iteration)
    numbers = {(step.attempt, step.iteration): number for number, step in enumerate(steps)}
    for key in sorted(of_steps.keys() & numbers.keys(), key=lambda key: (key != first, -numbers[key])):
        rollouts, number = of_steps[key]
        chosen["steps"][str(numbers[key])] = [of_page.places_of(rollouts), number]
    return of_page, chosen
