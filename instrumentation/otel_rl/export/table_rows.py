"""Rows of the tables: spans, logged values, steps and trajectories of a run, as they are sorted and written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.export import csv_cells
from otel_rl.export.timeline_rows import int64, is_moment
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, spans
from otel_rl.semconv.attributes import RlPhaseValues
from otel_rl.store.reader import Log, Span
from otel_rl.store.tables.operations import error_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.export.excerpt import RunExcerpt
    from otel_rl.export.spill import Spill
    from otel_rl.store.reader import Record
    from otel_rl.store.tables import RunTables
    from otel_rl.store.tables.samples import Row

SCHEMA = {
    "span": "id INTEGER PRIMARY KEY, start INT, stop INT, step INT, text BLOB",
    "value": "time INT, step INT, text BLOB",
    "step": "process TEXT, attempt TEXT, rank INT, loop TEXT, step INT, kind TEXT, start INT, stop INT",
    "phase": "process TEXT, step INT, phase TEXT, seconds REAL",
}

SPAN_COLUMNS = (
    *("start", "end", "duration", "name", "trace_id", "span_id", "parent_id"),
    *("process", "rank", "step", "phase", "error"),
)
VALUE_COLUMNS = ("time", "step", "rank", "key", "value")
STEP_COLUMNS = ("step", "rank", "attempt", "loop", "start", "end", "duration")
PHASES = tuple(value for name, value in vars(RlPhaseValues).items() if name.isupper())

#: Most columns of the trajectories' table that come from names which the program gave.
_COLUMNS = 1000
_NAMED = 5
SAMPLES = """
SELECT sample.*, rank FROM sample JOIN process USING (process)
WHERE ?1 IS NULL OR step BETWEEN ?1 AND ?2 ORDER BY time, sample"""
_STEPS = {spans.RL_LOOP.type, spans.RL_RANK_STEP.type}


@dataclass(slots=True)
class TableRows:
    """Turns records into rows."""

    spill: Spill
    #: Has the trajectories.
    tables: RunTables
    excerpt: RunExcerpt
    spans: int = 0
    without_time: int = 0
    columns_left_out: set[str] = field(default_factory=set)

    def add(self, record: Record) -> None:
        """Take in a record."""
        if not self.excerpt.has(record.process):
            return
        if isinstance(record, Span):
            self._add_span(record)
        elif isinstance(record, Log):
            if record.event == events.RL_STEP.name:
                self._add_values(record)
            self.tables.add(record)

    def close(self) -> None:
        """Make ready what was taken in: no record comes any more."""
        self.tables.settle()
        self.tables.index_scores()

    def notes(self) -> list[str]:
        """Return a line for each kind of what is in no table."""
        notes = [f"left out: {self.without_time} spans and log calls without a time"] if self.without_time else []
        if self.columns_left_out:
            named = ", ".join(sorted(self.columns_left_out)[:_NAMED])
            notes.append(f"left out: columns of trajectories beyond {_COLUMNS}: {named}, ...")
        return notes

    def _add_span(self, span: Span) -> None:
        start, stop = span.start or span.end, max(span.start, span.end)
        if not (is_moment(start) and is_moment(stop)):
            self.without_time += 1
            return
        self.spans += 1
        step, phase = int64(span.attributes.get(names.RL_LOOP_ITERATION)), span.attributes.get(names.RL_PHASE)
        seconds = (stop - start) / 1e9
        cells = (
            *(csv_cells.moment(start), csv_cells.moment(stop), seconds, span.name),
            *(span.trace_id, span.span_id, span.parent_id, span.process.label, span.process.rank),
            *(step, phase, error_of(span)),
        )
        self.spill.add("span", (self.spans, start, stop, step, csv_cells.line(cells)))
        if step is None:
            return
        if span.name in _STEPS:
            self._add_step(span, step, start, stop)
        elif phase is not None and _counts(span):
            active = span.attributes.get(names.RL_ACTIVE_DURATION)
            spent = float(active) if isinstance(active, (int, float)) else seconds
            self.spill.add("phase", (_key(span), step, _text(phase), spent))

    def _add_step(self, span: Span, step: int, start: int, stop: int) -> None:
        attempt, loop = span.process.identity(names.RL_RUN_ATTEMPT), span.attributes.get(names.RL_LOOP_NAME)
        row = (_key(span), _text(attempt), int64(span.process.rank), _text(loop), step, span.name, start, stop)
        self.spill.add("step", row)

    def _add_values(self, log: Log) -> None:
        if not is_moment(log.time) or not isinstance(log.body, dict):
            self.without_time += 1
            return
        step, time = int64(log.attributes.get(names.RL_LOOP_ITERATION)), csv_cells.moment(log.time)
        for key, value in log.body.items():
            text = csv_cells.line((time, step, log.process.rank, key, value))
            self.spill.add("value", (log.time, step, text))

    def trajectories(self) -> Iterator[dict[str, Any]]:
        """Yield the wanted trajectories as cells by name; values with names of the program have a column each."""
        for row in self.tables.samples(SAMPLES, *(self.excerpt.steps or (None, None))):
            yield _cells(row)

    def columns(self) -> list[str]:
        """Return the columns of trajectories in the order in which they came, most of them at most."""
        found = dict.fromkeys(("step", "rank", "source"))
        for name in (name for cells in self.trajectories() for name in cells if name not in found):
            if len(found) < _COLUMNS:
                found[name] = None
            elif len(self.columns_left_out) < _COLUMNS:
                self.columns_left_out.add(name)
        return list(found)


def _counts(span: Span) -> bool:
    """Return whether a phase is one of the step itself, and none of a function, a rollout or a part of one."""
    return not span.attributes.keys() & {names.RL_REWARD_NAME, names.RL_SUSPENDED, names.RL_ROLLOUT_ID}


def _key(span: Span) -> str:
    return _text(span.process.key)


def _text(value: Any) -> str:
    """Return text that a database takes."""
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def _cells(row: Row) -> dict[str, Any]:
    """Return the cells of a trajectory; values with names of the program have a column each."""
    told = row.as_json()
    named = {kind: told.pop(kind, {}) for kind in ("scores", "weights", "metrics")}
    return {**told, **{f"{kind}.{name}": value for kind, values in named.items() for name, value in values.items()}}
