"""Rows of the timeline: the spans, values and errors of a run as the writer sorts and joins them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.export import tracks
from otel_rl.export.safe_json import encoded
from otel_rl.export.tracks import Track
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader import Log, Point, Process, Span, UnusableInput
from otel_rl.store.reader.otlp_values import int_or_none
from otel_rl.store.reader.records import ERROR_SEVERITY
from otel_rl.store.tables import engine_stages

if TYPE_CHECKING:
    from otel_rl.export.excerpt import RunExcerpt
    from otel_rl.export.spill import Spill
    from otel_rl.store.reader import Record

#: Tables of the spill. ``own``, ``parent`` and ``trace`` are hashes of ids.
SCHEMA = {
    "span": "id INTEGER PRIMARY KEY, process INT, track INT, fallback INT, start INT, stop INT, own INT, parent INT,"
    " trace INT, step INT, kind TEXT",
    "body": "span INTEGER PRIMARY KEY, text BLOB",
    "link": "span INT, target INT",
    "event": "span INT, time INT, text BLOB",
    "counter": "process INT, time INT, step INT, name BLOB, value REAL",
    "mark": "process INT, time INT, text BLOB",
    "arrow": "span INT, phase TEXT, flow INT, time INT, name TEXT",
}

#: 2000 and 2262 in ns since the epoch: what is outside is no time of a run, but a value that nobody set.
_EARLIEST, _LATEST = 946_684_800_000_000_000, 2**63 - 1
_TEXT = 200


def is_moment(time: int) -> bool:
    """Return whether ``time``, in ns since the epoch, can be the time of a record."""
    return _EARLIEST <= time < _LATEST


@dataclass(slots=True)
class LeftOut:
    """What is not in the export, and why."""

    spans_without_time: int = 0
    values_not_finite: int = 0
    values_without_time: int = 0
    arrows_against_time: int = 0
    arrows_to_no_phase: int = 0
    arrows_to_asynchronous: int = 0
    #: What else the user should know, in words.
    more: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return a line for each."""
        reasons = (
            (self.spans_without_time, "spans without a time"),
            (self.values_without_time, "values without a time"),
            (self.values_not_finite, "values that are NaN or infinite, which JSON does not have"),
            (
                self.arrows_against_time,
                "arrows that would lead back in time: a wait before its step, or clocks of machines that differ",
            ),
            (self.arrows_to_no_phase, "arrows from rollouts to their steps, of which no phase began after them"),
            (
                self.arrows_to_asynchronous,
                "arrows from or to spans that more than 32 others of their track overlap; the spans are there",
            ),
        )
        return [*self.more, *(f"left out: {number} {reason}" for number, reason in reasons if number)]


@dataclass(slots=True)
class TimelineRows:
    """Turns records into rows; processes and tracks have a number each, in the order in which they came."""

    spill: Spill
    excerpt: RunExcerpt
    left_out: LeftOut = field(default_factory=LeftOut)
    processes: list[Process] = field(default_factory=list)
    tracks: list[tuple[int, Track]] = field(default_factory=list)
    spans: int = 0
    _process_numbers: dict[Process, int] = field(default_factory=dict)
    _track_numbers: dict[tuple[int, Track], int] = field(default_factory=dict)
    _tracks_of: dict[int, int] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Take in a record."""
        if not self.excerpt.has(record.process):
            return
        process = self._process_numbers.get(record.process)
        if process is None:
            process = self._process_numbers[record.process] = len(self.processes)
            self.processes.append(record.process)
        if isinstance(record, Span):
            self._add_span(record, process)
        elif isinstance(record, Point):
            self._add_point(record, process)
        else:
            self._add_log(record, process)

    def keep_steps(self, steps: tuple[int, int]) -> int:
        """Leave only these steps, and what happened meanwhile; the number of spans that are left.

        Raises:
            UnusableInput: no span is of one of them.
        """
        begin, end = self.spill.row("SELECT min(start), max(stop) FROM span WHERE step BETWEEN ? AND ?", steps)
        if begin is None:
            first, last = self.spill.row("SELECT min(step), max(step) FROM span")
            known = f"it has steps {first} to {last}" if first is not None else "it has no steps"
            raise UnusableInput(f"the run has no step from {steps[0]} to {steps[1]}; {known}")
        self.spill.run("DELETE FROM span WHERE step NOT BETWEEN ? AND ?", steps)
        self.spill.run("DELETE FROM span WHERE step IS NULL AND (stop < ? OR start > ?)", (begin, end))
        self.spill.run("DELETE FROM counter WHERE step NOT BETWEEN ? AND ?", steps)
        self.spill.run("DELETE FROM counter WHERE step IS NULL AND time NOT BETWEEN ? AND ?", (begin, end))
        self.spill.run("DELETE FROM mark WHERE time NOT BETWEEN ? AND ?", (begin, end))
        return int(self.spill.row("SELECT count(*) FROM span")[0])

    def _add_span(self, span: Span, process: int) -> None:
        start, stop = span.start or span.end, max(span.start, span.end)
        if not (is_moment(start) and is_moment(stop)):
            self.left_out.spans_without_time += 1
            return
        kind = tracks.category(span)
        track = tracks.own_track(span, kind)
        parent = hash((span.trace_id, span.parent_id)) if span.parent_id else None
        own, trace = hash((span.trace_id, span.span_id)), hash(span.trace_id)
        step = int64(span.attributes.get(names.RL_LOOP_ITERATION))
        on_track = self._track(process, track) if track is not None else None
        fallback = self._track(process, track or tracks.fallback(span, kind))
        if kind == "call":
            self._add_stages(span, process, (own, trace, step), fallback)
        self._add_slice(process, on_track, fallback, start, stop, own, parent, trace, step, kind, _body(span, kind))
        for target in span.links:
            self.spill.add("link", (self.spans, hash(target)))
        for event in span.events:
            if is_moment(event.time):
                text = _named(event.name or "event", "event", event.attributes)
                self.spill.add("event", (self.spans, event.time, text))

    def _add_slice(self, *columns: Any) -> None:
        self.spans += 1
        *row, body = columns
        self.spill.add("span", (self.spans, *row))
        self.spill.add("body", (self.spans, body))

    def _add_stages(self, span: Span, process: int, of: tuple[int, int, int | None], fallback: int) -> None:
        """Draw the stages of a request in its call, those of separate servers on tracks of their own."""
        call, trace, step = of
        for stage in engine_stages.of_call(span.start, span.end, engine_stages.times_of(span)):
            track = self._track(process, tracks.stages_of(span, stage.server)) if stage.server else None
            own = hash((call, stage.server, stage.name))
            kind = stage.kind.name.lower()
            body = _named(stage.name, kind, {"otel.trace_id": span.trace_id, "otel.parent_id": span.span_id})
            self._add_slice(
                process, track, track or fallback, stage.start, stage.end, own, call, trace, step, kind, body
            )

    def _track(self, process: int, track: Track) -> int:
        track = Track(track.place, track.label[:_TEXT])
        number = self._track_numbers.get((process, track))
        if number is None:
            if self._tracks_of.get(process, 0) >= tracks.MOST and track != tracks.OTHERS:
                return self._track(process, tracks.OTHERS)
            self._tracks_of[process] = self._tracks_of.get(process, 0) + 1
            number = self._track_numbers[process, track] = len(self.tracks)
            self.tracks.append((process, track))
        return number

    def _add_point(self, point: Point, process: int) -> None:
        if point.kind == "gauge" or (point.kind == "sum" and point.cumulative and not point.monotonic):
            self._value(process, point.time, None, _labelled(point), point.value)

    def _add_log(self, log: Log, process: int) -> None:
        if log.event == events.RL_STEP.name and isinstance(log.body, dict):
            step = int64(log.attributes.get(names.RL_LOOP_ITERATION))
            for key, value in log.body.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    self._value(process, log.time, step, key, value)
        elif log.severity >= ERROR_SEVERITY and is_moment(log.time):
            text = _named(log.event or "error", "log", {"body": log.body, **log.attributes})
            self.spill.add("mark", (process, log.time, text))

    def _value(self, process: int, time: int, step: int | None, name: str, value: float) -> None:
        if not is_moment(time):
            self.left_out.values_without_time += 1
        elif not math.isfinite(value):
            self.left_out.values_not_finite += 1
        else:
            self.spill.add("counter", (process, time, step, encoded(name[:_TEXT]), float(value)))


def int64(value: Any) -> int | None:
    """Return an integer that 64 bits hold; None for anything else."""
    number = int_or_none(value)
    return number if number is not None and abs(number) < _LATEST else None


def _labelled(point: Point) -> str:
    labels = ", ".join(f"{key}={value}" for key, value in sorted(point.attributes.items()))
    return f"{point.metric} {{{labels}}}" if labels else point.metric


def _body(span: Span, kind: str) -> bytes:
    arguments = {
        **span.attributes,
        "otel.trace_id": span.trace_id,
        "otel.span_id": span.span_id,
        "otel.parent_id": span.parent_id,
        "otel.scope": span.scope,
    }
    if span.failed:
        arguments["otel.status"] = span.message or "error"
    return _named(span.name or "(no name)", kind, arguments)


def _named(name: str, kind: str, arguments: dict[str, Any]) -> bytes:
    """Return the members of a trace event that do not depend on where it is drawn."""
    return b'"name":%b,"cat":"%b","args":%b' % (encoded(name), kind.encode(), encoded(arguments))
