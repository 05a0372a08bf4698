"""What every rank, engine and rollout did, from the tables of a run: asked once, and painted lane by lane.

The latest stretches stay as they are; of all there is the time in each state, in bins that cover the whole run, and of
the slowest step its stretches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.stretches import paint
from otel_rl.report.subjects.state_timeline import asked, exact, rollouts
from otel_rl.report.subjects.state_timeline.asked import LaneRows
from otel_rl.report.subjects.state_timeline.bins import Bins, TimeOfLane, written
from otel_rl.report.subjects.state_timeline.states import STATES
from otel_rl.semconv import attributes as names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.state_timeline.asked import Window
    from otel_rl.report.subjects.state_timeline.exact import Exact
    from otel_rl.report.subjects.state_timeline.rollouts import Rollouts
    from otel_rl.store.tables import RunTables

#: Lanes, beyond which processes are left out and counted.
_LANES = 1024
_PLACE = "SELECT place FROM callee WHERE callee = ?"


@dataclass(slots=True)
class Lane:
    """One lane; ``bins`` has the state that took most of each bin, as text, and ``totals`` the seconds by state."""

    is_rank: bool
    name: str
    role: str = ""
    rank: int | None = None
    node: str = ""
    bins: str = ""
    totals: list[float] = field(default_factory=list)


@dataclass(slots=True)
class StateTimeline:
    """All lanes in the order of the page, engines at the top, and what is drawn beside them.

    Attributes:
        lanes: of engines in the processes and of model servers; of ranks, and of processes without one that have steps
            or phases: none in a run without steps.
        rollouts: those that are chosen.
        steps: the latest ones, in the order in which they began.
        slowest: the step that took a rank the longest.
        start: the first moment of all that is drawn, in ns since the epoch.
        end: the last one.
        bins: into which the time of each lane is divided.
        latest: the latest stretches of all lanes.
        earlier: those of the slowest step, where it is before these.
        of_ranks: seconds of all ranks by state and bin.
        syncs: when the latest weight syncs began.
        misdated: records with a wrong clock.
        left_out: stretches of lanes beyond those that are drawn.
    """

    lanes: list[Lane]
    rollouts: Rollouts
    steps: list[Window]
    slowest: Window | None
    start: int
    end: int
    bins: Bins
    latest: Exact
    earlier: Exact | None
    of_ranks: NDArray[np.float64]
    syncs: list[int]
    misdated: int
    left_out: int

    @property
    def ranks(self) -> list[Lane]:
        """Lanes of ranks."""
        return [lane for lane in self.lanes if lane.is_rank]

    @property
    def engines(self) -> list[Lane]:
        """Lanes of engines and model servers."""
        return [lane for lane in self.lanes if not lane.is_rank]


@dataclass(slots=True)
class Painted:
    """The final part of the timeline of a growing run, kept from one rendering to the next.

    Attributes:
        until: everything before this moment is final; in ns since the epoch.
        next_until: ``until`` of the next rendering: start of the stretches that are drawn exactly.
        in_time: SQL condition that excludes rows with a wrong clock.
        rows: last row ids of the tables, to detect new rows.
        lanes: what began on each lane before ``until``.
        places: numbers of the lanes in the order of the page.
        bins: into which time is divided.
        times: time of each lane before ``until``, by its number.
        slowest: the slowest step.
        earlier: its stretches, once none is missing.
    """

    until: int = 0
    next_until: int = 0
    in_time: str = ""
    rows: tuple[int, ...] = ()
    lanes: dict[int, LaneRows] = field(default_factory=dict)
    places: list[int] = field(default_factory=list)
    bins: Bins | None = None
    times: dict[int, TimeOfLane] = field(default_factory=dict)
    slowest: Window | None = None
    earlier: Exact | None = None

    def holds(self, tables: RunTables, in_time: str, slowest: Window | None) -> bool:
        """Return whether all new rows start after ``until``; drop ``earlier`` if one falls into the slowest step."""
        begin = asked.begin_of_new(tables, self.rows) if self.rows else 0
        if in_time != self.in_time or begin < self.until:
            return False
        if slowest is None or slowest != self.slowest or begin < slowest.end:
            self.earlier = None
        return slowest is None or slowest.start >= self.until or self.earlier is not None

    def is_of(self, places: list[int], bins: Bins) -> bool:
        """Return whether the lanes and the bins are the same; there may be more bins at the end."""
        return self.bins is not None and self.places == places and self.bins[:2] == bins[:2]


@asked_once
def of_run(collected: Collected) -> StateTimeline:
    """Return the timeline of the run."""
    timeline, collected.kept[Painted] = of_tables(collected.tables, collected.kept.get(Painted, Painted()))
    return timeline


def of_tables(tables: RunTables, painted: Painted) -> tuple[StateTimeline, Painted]:
    """Return the timeline of a run, and the final part of it for the next call."""
    in_time = asked.in_time(tables)
    steps, slowest = asked.windows(tables, in_time)
    if not painted.holds(tables, in_time, slowest):
        painted = Painted()
    before = _merged(painted.lanes, asked.lanes(tables, in_time, painted.until, painted.next_until))
    present = _merged(before, asked.lanes(tables, in_time, painted.next_until)).values()
    known = [row for row in present if steps or row.lane % asked.GROUPS != asked.RANKS]
    shown, of_rollouts = known[:_LANES], rollouts.of_run(tables, in_time, slowest)
    extents = [(row.start, row.end) for row in shown]
    first, last = min(extents, default=(0, 0))[0], max((end for _, end in extents), default=0)
    if of_rollouts.start is not None and of_rollouts.end is not None:
        extents.append((of_rollouts.start, of_rollouts.end))
    start, end = min(extents, default=(0, 0))[0], max((end for _, end in extents), default=0)
    lanes = sorted(((row.lane, _lane(tables, row.lane)) for row in shown), key=lambda one: _order(one[1]))
    places, bins = [number for number, _ in lanes], Bins.covering(first, last, len(lanes))
    if painted.until and not painted.is_of(places, bins):
        return of_tables(tables, Painted())
    timeline = StateTimeline(
        lanes=[lane for _, lane in lanes],
        rollouts=of_rollouts,
        steps=steps,
        slowest=slowest,
        start=start,
        end=end,
        bins=bins,
        latest=exact.latest(len(lanes), steps, start, end),
        earlier=_earlier(painted, slowest, len(lanes)),
        of_ranks=np.zeros((len(STATES), bins.number)),
        syncs=asked.syncs(tables, in_time),
        misdated=asked.misdated(tables, in_time),
        left_out=sum(row.number for row in known[_LANES:]),
    )
    _paint(timeline, asked.stretches(tables, in_time, painted.until), places, painted)
    timeline.latest.close(timeline.end)
    is_complete = slowest is not None and slowest.end <= timeline.latest.since
    if slowest and timeline.earlier:
        timeline.earlier.close(timeline.latest.since)
        if slowest.start >= timeline.latest.since:
            timeline.earlier = None
    return timeline, Painted(
        until=painted.next_until,
        next_until=max(timeline.latest.since, painted.next_until),
        in_time=in_time,
        rows=asked.last_rows(tables),
        lanes=before,
        places=places,
        bins=bins,
        times=painted.times,
        slowest=slowest,
        earlier=timeline.earlier if is_complete else None,
    )


def _merged(before: dict[int, LaneRows], more: dict[int, LaneRows]) -> dict[int, LaneRows]:
    lanes = dict(before)
    for lane, row in more.items():
        _, number, start, end = lanes.get(lane, LaneRows(lane, 0, row.start, row.end))
        lanes[lane] = LaneRows(lane, number + row.number, min(start, row.start), max(end, row.end))
    return dict(sorted(lanes.items()))


def _earlier(painted: Painted, slowest: Window | None, lanes: int) -> Exact | None:
    if slowest is None:
        return None
    return painted.earlier or exact.of_step(lanes, slowest)


def _lane(tables: RunTables, number: int) -> Lane:
    of, group = divmod(number, asked.GROUPS)
    if group == asked.SERVERS:
        return Lane(is_rank=False, name=str(tables.value(_PLACE, of)))
    process, is_rank = tables.process(of), group == asked.RANKS
    node, host = process.identity(names.RL_NODE_RANK), process.identity(names.HOST_NAME)
    return Lane(
        is_rank=is_rank,
        name=process.label if is_rank else f"engine of {process.label}",
        role=str(process.identity(names.RL_ROLE) or ""),
        rank=process.rank,
        node=str(host or "" if node is None else node),
    )


def _order(lane: Lane) -> tuple[bool, bool, int, str, str]:
    return lane.is_rank, lane.rank is None, lane.rank or 0, lane.role, lane.name


def _paint(timeline: StateTimeline, stretches: Iterator[tuple[int, ...]], places: list[int], painted: Painted) -> None:
    """Paint the stretches after ``painted.until`` into the timeline, and extend the final part."""
    since, until, place_of = painted.until, painted.next_until, {number: place for place, number in enumerate(places)}
    earlier = None if timeline.earlier is painted.earlier else timeline.earlier
    later: dict[int, TimeOfLane] = {}
    for number, rows in groupby(stretches, itemgetter(0)):
        place = place_of.get(number)
        if place is None:
            continue
        kept = painted.times.setdefault(number, TimeOfLane(timeline.bins))
        kept.bins, time = timeline.bins, later.setdefault(number, TimeOfLane(timeline.bins))
        for one in paint(tuple(row)[1:] for row in rows):
            if one.end <= since:
                continue
            start = max(one.start, since)
            if start < until:
                kept.add(one.kind, start, min(one.end, until))
            if one.end > until:
                time.add(one.kind, max(start, until), one.end)
            timeline.latest.add(place, one)
            if earlier:
                earlier.add(place, one)
    _fill(timeline, places, painted.times, later)


def _fill(
    timeline: StateTimeline, places: list[int], kept: dict[int, TimeOfLane], later: dict[int, TimeOfLane]
) -> None:
    for place, number in enumerate(places):
        lane, table = timeline.lanes[place], np.zeros((len(STATES), timeline.bins.number))
        for time in (kept.get(number), later.get(number)):
            if time is not None:
                time.bins = timeline.bins
                table += time.table()
        lane.totals, lane.bins = table.sum(axis=1).tolist(), written(table, timeline.bins.width)
        if lane.is_rank:
            timeline.of_ranks += table
