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


@asked_once
def of_run(collected: Collected) -> StateTimeline:
    """Return the timeline of the run."""
    return of_tables(collected.tables)


def of_tables(tables: RunTables) -> StateTimeline:
    """Return the timeline of the run that these tables are of."""
    in_time = asked.in_time(tables)
    steps, slowest = asked.windows(tables, in_time)
    known = [row for row in asked.lanes(tables, in_time) if steps or row.lane % asked.GROUPS != asked.RANKS]
    shown, of_rollouts = known[:_LANES], rollouts.of_run(tables, in_time, slowest)
    extents = [(row.start, row.end) for row in shown]
    first, last = min(extents, default=(0, 0))[0], max((end for _, end in extents), default=0)
    if of_rollouts.start is not None and of_rollouts.end is not None:
        extents.append((of_rollouts.start, of_rollouts.end))
    start, end = min(extents, default=(0, 0))[0], max((end for _, end in extents), default=0)
    lanes = sorted(((row.lane, _lane(tables, row.lane)) for row in shown), key=lambda one: _order(one[1]))
    bins = Bins.covering(first, last, len(lanes))
    timeline = StateTimeline(
        lanes=[lane for _, lane in lanes],
        rollouts=of_rollouts,
        steps=steps,
        slowest=slowest,
        start=start,
        end=end,
        bins=bins,
        latest=exact.latest(len(lanes), steps, start, end),
        earlier=exact.of_step(len(lanes), slowest) if slowest else None,
        of_ranks=np.zeros((len(STATES), bins.number)),
        syncs=asked.syncs(tables, in_time),
        misdated=asked.misdated(tables, in_time),
        left_out=sum(row.number for row in known[_LANES:]),
    )
    _paint(timeline, asked.stretches(tables, in_time), {number: place for place, (number, _) in enumerate(lanes)})
    return timeline


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


def _paint(timeline: StateTimeline, stretches: Iterator[tuple[int, ...]], places: dict[int, int]) -> None:
    """Fill in what each lane did, at its place."""
    for number, rows in groupby(stretches, itemgetter(0)):
        place = places.get(number)
        if place is None:
            continue
        lane, time = timeline.lanes[place], TimeOfLane(timeline.bins)
        for one in paint(tuple(row)[1:] for row in rows):
            time.add(one.kind, one.start, one.end)
            timeline.latest.add(place, one)
            if timeline.earlier:
                timeline.earlier.add(place, one)
        table = time.table()
        lane.totals, lane.bins = table.sum(axis=1).tolist(), written(table, timeline.bins.width)
        if lane.is_rank:
            timeline.of_ranks += table
    timeline.latest.close(timeline.end)
    if timeline.slowest and timeline.earlier:
        timeline.earlier.close(timeline.latest.since)
        if timeline.slowest.start >= timeline.latest.since:
            timeline.earlier = None
