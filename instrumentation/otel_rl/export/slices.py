"""Spans as slices on lanes, with their events, and the arrows between them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.export.arrows import FURTHER
from otel_rl.export.lanes import THREADS, Lanes
from otel_rl.export.trace_events import TraceEvents, metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.export.lanes import OpenSpan
    from otel_rl.export.timeline_rows import TimelineRows

#: Numbers that a track has for its lanes.
_NUMBERS = 2 * THREADS

_INDEX = "CREATE INDEX span_in_order ON span (track, start, stop DESC, id DESC)"
_IN_ORDER = """
SELECT track, id, start, stop, own, parent, kind, text,
    EXISTS (SELECT 1 FROM arrow WHERE arrow.span = span.id), EXISTS (SELECT 1 FROM event WHERE event.span = span.id)
FROM span JOIN body ON body.span = span.id ORDER BY track, start, stop DESC, id DESC
"""


class _SpanRow(NamedTuple):
    identity: int
    start: int
    stop: int
    key: int
    parent: int | None
    kind: str
    text: bytes
    has_arrows: int
    has_events: int


@dataclass(slots=True)
class Slices:
    """Writes the spans of a timeline; ``pids`` has the number that each process has in the trace."""

    events: TraceEvents
    timeline: TimelineRows
    pids: list[int]
    #: Number of the last arrow that was found here: numbers of spans and of their flows are below.
    _flows: int = 0
    _first_tids: dict[int, int] = field(default_factory=dict)

    def write(self, advance: Callable[[int], object]) -> None:
        """Write all; ``advance`` takes how many more spans are written."""
        self._flows, self._first_tids = 2 * FURTHER, _first_tids(self.timeline)
        self.timeline.spill.run(_INDEX)
        current, track = -1, _TrackLanes(0, 0, "")
        for number, *columns in self.timeline.spill.rows(_IN_ORDER):
            if number != current:
                process, (_, label) = self.timeline.tracks[number]
                current, track = number, _TrackLanes(self.pids[process], self._first_tids[number], label)
            self._write(_SpanRow(*columns), track)
            advance(1)

    def _write(self, row: _SpanRow, track: _TrackLanes) -> None:
        lane, above = track.lanes.place(row.key, row.parent, row.start, row.stop)
        if lane >= THREADS:
            self._write_asynchronous(row, track, lane)
            return
        for name in track.names(lane):
            self.events.put(name)
        where = track.place(lane)
        times = self.events.at(row.start), self.events.between(row.start, row.stop)
        self.events.put(b'{"ph":"X",%b,"ts":%b,"dur":%b,%b}' % (where, *times, row.text))
        if row.has_arrows:
            for phase, flow, time, name in self._arrows(row):
                self._put_arrow(where, phase, flow, time, name)
        if above is not None:
            self._put_arrow_beside(above, row, track, where)
        if row.has_events:
            self._put_events(row, b'%b,"s":"t"' % where)

    def _write_asynchronous(self, row: _SpanRow, track: _TrackLanes, lane: int) -> None:
        for phase, time in ((b"b", row.start), (b"e", row.stop)):
            self.events.put(
                b'{"ph":"%b","pid":%d,"id2":{"local":"0x%x"},"ts":%b,%b}'
                % (phase, track.pid, (track.first << 32) + lane, self.events.at(time), row.text)
            )
        if row.has_arrows:
            self.timeline.left_out.arrows_to_asynchronous += sum(1 for _ in self._arrows(row))
        if row.has_events:
            self._put_events(row, b'"pid":%d,"s":"p"' % track.pid)

    # -- what belongs to a span ----------------------------------------------------------------------------------------

    def _arrows(self, row: _SpanRow) -> Any:
        query = "SELECT phase, flow, time, name FROM arrow WHERE span = ?"
        return self.timeline.spill.rows(query, (row.identity,))

    def _put_arrow_beside(self, above: OpenSpan, row: _SpanRow, track: _TrackLanes, where: bytes) -> None:
        """Lead from a parent to a child that did not fit on its lane."""
        self._flows += 1
        self._put_arrow(track.place(above.lane), "s", self._flows, above.start, row.kind)
        self._put_arrow(where, "f", self._flows, row.start, row.kind)

    def _put_arrow(self, where: bytes, phase: str, flow: int, time: int, name: str) -> None:
        # An arrow binds to the span around it: that one was written just before, and is open.
        binds = b"" if phase == "s" else b'"bp":"e",'
        self.events.put(
            b'{"ph":"%b",%b,%b"cat":"arrow","name":"%b","id":"%d","ts":%b}'
            % (phase.encode(), where, binds, name.encode(), flow, self.events.at(time))
        )

    def _put_events(self, row: _SpanRow, where: bytes) -> None:
        for time, text in self.timeline.spill.rows("SELECT time, text FROM event WHERE span = ?", (row.identity,)):
            self.events.put(b'{"ph":"i",%b,"ts":%b,%b}' % (where, self.events.at(time), text))


class _TrackLanes:
    """The lanes of one track, as threads of the process with the number ``pid``."""

    def __init__(self, pid: int, first: int, label: str) -> None:
        self.pid, self.first, self._label = pid, first, label
        self.lanes = Lanes()
        self._named = 0

    def place(self, lane: int) -> bytes:
        """Return the members that say where an event of this lane is drawn."""
        return b'"pid":%d,"tid":%d' % (self.pid, self.first + lane)

    def names(self, lane: int) -> list[bytes]:
        """Return the events that name a lane, at its first span."""
        if lane < self._named:
            return []
        self._named = lane + 1
        tid = self.first + lane
        name = f"{self._label} ({lane + 1})" if lane else self._label
        return [
            metadata("thread_name", self.pid, {"name": name}, tid),
            metadata("thread_sort_index", self.pid, {"sort_index": tid}, tid),
        ]


def _first_tids(timeline: TimelineRows) -> dict[int, int]:
    """Return the thread number of the first lane of each track: in a process the tracks are in their order."""
    of_process: dict[int, list[tuple[Any, int]]] = defaultdict(list)
    for number, (process, track) in enumerate(timeline.tracks):
        of_process[process].append((track, number))
    return {
        number: place * _NUMBERS + 1
        for tracks in of_process.values()
        for place, (_, number) in enumerate(sorted(tracks))
    }
