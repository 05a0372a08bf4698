"""The runs that the ends of a collector's files speak of, and what these say of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlRunEndStatusValues as EndStatus
from otel_rl.store.reader import last_metrics
from otel_rl.store.reader.end_states import GRAVEST_FIRST, EndState
from otel_rl.store.reader.otlp import records
from otel_rl.store.reader.processes import ProcessRegistry
from otel_rl.store.reader.records import Log, Point, Span
from otel_rl.store.reader.tails import lines_from_end

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from otel_rl.store.reader.processes import Process
    from otel_rl.store.reader.records import Record

#: Most bytes that are read of the end of a file, and most runs that are kept.
_MOST, _RUNS = 1 << 18, 100
_STATES = {
    EndStatus.COMPLETED: EndState.IN_ORDER,
    EndStatus.STOPPED: EndState.STOPPED,
    EndStatus.FAILED: EndState.FAILED,
}


@dataclass(slots=True)
class TailRun:
    """One run as the ends of the files have it; ``first`` and ``last`` in ns since the epoch."""

    id: str
    process: Process
    first: int
    last: int
    states: set[EndState] = field(default_factory=set)
    values: last_metrics.LastMetrics = field(default_factory=last_metrics.LastMetrics)

    @property
    def state(self) -> EndState:
        """The gravest end of its processes; of a run without one it is not known."""
        return next((state for state in GRAVEST_FIRST if state in self.states), EndState.NOT_KNOWN)


def runs_of_output(files: Iterable[Path]) -> list[TailRun]:
    """Return the runs in the last bytes of a collector's files."""
    registry, found = ProcessRegistry(), dict[str, TailRun]()
    for path in files:
        for line in reversed(_last_lines(path)):
            for record in records(last_metrics.parsed(line) or {}, registry.of):
                _add(found, record)
    for run in found.values():
        # Several exports were added up.
        run.values.steps = None
    return list(found.values())


def _last_lines(path: Path) -> list[bytes]:
    try:
        return list(lines_from_end(path, _MOST))
    except OSError:
        return []


def _add(found: dict[str, TailRun], record: Record) -> None:
    run_id = record.process.resource.get(names.RL_RUN_ID)
    moment = record.end if isinstance(record, Span) else record.time
    if not isinstance(run_id, str) or (run_id not in found and len(found) >= _RUNS):
        return
    run = found.setdefault(run_id, TailRun(run_id, record.process, moment, moment))
    run.first, run.last = min(run.first, moment), max(run.last, moment)
    if isinstance(record, Point):
        run.values.add(record)
    elif isinstance(record, Log) and record.event == events.RL_RUN_END.name:
        status = str(record.attributes.get(names.RL_RUN_END_STATUS))
        run.states.add(_STATES.get(status, EndState.NOT_KNOWN))
