"""One run as one trace: its processes, spans, values, errors and findings, and traces of PyTorch's profiler."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from otel_rl.core import __version__
from otel_rl.export.safe_json import encoded
from otel_rl.export.slices import Slices
from otel_rl.export.trace_events import TraceEvents, grain_of, metadata
from otel_rl.semconv import attributes as names

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.export.findings import FindingMark
    from otel_rl.export.timeline_rows import TimelineRows
    from otel_rl.export.torch_traces import TorchTrace
    from otel_rl.store.reader import Process

_FIRST = """
SELECT min(time) FROM (
    SELECT min(start) AS time FROM span UNION ALL SELECT min(time) FROM counter UNION ALL SELECT min(time) FROM mark)
"""
_LAST = _FIRST.replace("min", "max").replace("max(start)", "max(stop)")
_STEP = "SELECT min(start) FROM span WHERE step = ?"
_PIDS_OF_A_TRACE = 10_000
_DAY = 86_400_000_000_000


def write(
    stream: IO[bytes],
    timeline: TimelineRows,
    run_id: str | None,
    order: list[Process],
    found: list[FindingMark],
    torch: list[TorchTrace],
    advance: Callable[[int], object],
) -> None:
    """Write the trace; ``order`` is that of the processes, ``advance`` takes how many more spans are written."""
    moments = [timeline.spill.row(_FIRST)[0], timeline.spill.row(_LAST)[0], *(trace.first for trace in torch)]
    known = [moment for moment in moments if moment is not None] or [0]
    events = TraceEvents(stream, min(known), grain_of(max(known) - min(known)))
    if events.grain > 1:
        days = (max(known) - min(known)) // _DAY
        timeline.left_out.more.append(
            f"the records lie up to {days} days apart (a clock that is wrong?): times are rounded to"
            f" {events.grain // 1000} µs, so that Perfetto can compute with them"
        )
    events.begin(
        {
            "otel-rl": __version__,
            "run_id": run_id,
            "origin_unix_nano": str(events.origin),
            "clock": "that of each machine; offsets between machines are not corrected",
        }
    )
    pids = _put_processes(events, timeline, order)
    Slices(events, timeline, pids).write(advance)
    _put_values(events, timeline, pids)
    _put_errors(events, timeline, pids)
    _put_findings(events, timeline, found)
    for number, trace in enumerate(torch, start=1):
        for event in trace.moved(events.origin, number, len(order) + 1 + number * _PIDS_OF_A_TRACE):
            events.put(event)
    events.end()


def _put_processes(events: TraceEvents, timeline: TimelineRows, order: list[Process]) -> list[int]:
    places = {process: place for place, process in enumerate(order, start=1)}
    pids = [places[process] for process in timeline.processes]
    for process, pid in zip(timeline.processes, pids, strict=True):
        name, labels = _name(process), _labels(process)
        events.put(metadata("process_name", pid, {"name": name}))
        events.put(metadata("process_sort_index", pid, {"sort_index": pid}))
        events.put(metadata("process_labels", pid, {"labels": labels}))
    return pids


def _name(process: Process) -> str:
    role = process.identity(names.RL_ROLE)
    return f"{process.label} ({role})" if role and not process.label.startswith(str(role)) else process.label


def _labels(process: Process) -> str:
    known = {
        "host": process.identity(names.HOST_NAME),
        "pid": process.identity(names.PROCESS_PID),
        "attempt": process.identity(names.RL_RUN_ATTEMPT),
    }
    return ", ".join(f"{key} {value}" for key, value in known.items() if value is not None)


def _put_values(events: TraceEvents, timeline: TimelineRows, pids: list[int]) -> None:
    for process, time, name, value in timeline.spill.rows("SELECT process, time, name, value FROM counter"):
        events.put(
            b'{"ph":"C","pid":%d,"name":%b,"ts":%b,"args":{"value":%b}}'
            % (pids[process], name, events.at(time), encoded(value))
        )


def _put_errors(events: TraceEvents, timeline: TimelineRows, pids: list[int]) -> None:
    for process, time, text in timeline.spill.rows("SELECT process, time, text FROM mark"):
        events.put(b'{"ph":"i","s":"p","pid":%d,"ts":%b,%b}' % (pids[process], events.at(time), text))


def _put_findings(events: TraceEvents, timeline: TimelineRows, found: list[FindingMark]) -> None:
    last = timeline.spill.row(_LAST)[0] or events.origin
    for mark in found:
        time = timeline.spill.row(_STEP, (mark.step,))[0] or last
        events.put(
            b'{"ph":"i","s":"g","pid":0,"tid":0,"cat":"finding","name":%b,"ts":%b,"args":%b}'
            % (encoded(mark.title), events.at(time), encoded(mark.arguments))
        )
