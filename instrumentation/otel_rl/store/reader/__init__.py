"""Reads what a run left behind: the file store's folders or a collector's output files.

    source = find_run(Path("./otel-rl"))
    reader = Reader(source)
    for record in reader.records():
        ...

Records stream one by one, so memory does not grow with the input. Lines that cannot be read are counted per process
and in :attr:`Reader.problems`.

Modules, each importing only those below it:
    following: the same while it is written.
    run_list: the runs of a folder, listed without being read.
    run_rows: one line of such a list.
    process_folders: what the folder of a process says without being read.
    collector_tails: what the ends of a collector's files say of runs.
    last_metrics: the metrics that a list shows, of one export.
    run_summaries: ``summary.json``, which a report has left.
    log_tail: the last log records of a run, and those that are appended.
    tails: the end of a file.
    locate: the runs and files that a folder holds.
    copies: files that are copies of others.
    lines: the lines of a file, and the export requests in them.
    compressed: files that the store has compressed, read like those before.
    former_names: requests of older versions, brought to today's names.
    end_states: how a process ended, or that it runs.
    uncaught_exceptions: what a process died of, in words.
    run_records: what a run says of its settings and of what it came to.
    otlp: the records of an export request.
    records: spans, metric points and log records.
    processes: the processes that wrote them, from manifests and resources.
    otlp_values: single values of OTLP JSON.
    unreadable: the count of lines and files that could not be read.
    errors: the exception for input that cannot be used.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.store.reader.errors import UnusableInput
from otel_rl.store.reader.lines import having, matching_lines, of_traces, parse, requests
from otel_rl.store.reader.locate import RunSource, SignalFile, find_run, written_together
from otel_rl.store.reader.otlp import leave_traces, records
from otel_rl.store.reader.processes import Process, ProcessRegistry
from otel_rl.store.reader.records import Log, Point, Record, Span
from otel_rl.store.reader.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


__all__ = [
    "Log",
    "Point",
    "Process",
    "Reader",
    "Record",
    "RunSource",
    "SignalFile",
    "Span",
    "UnusableInput",
    "find_run",
]


class Reader:
    """One pass over all records of a :class:`RunSource`, and cheap second passes over chosen traces."""

    def __init__(self, source: RunSource) -> None:
        self.source = source
        self.problems = Unreadable()
        #: Records of other runs in the same files, left out.
        self.left_out = 0
        self._registry = ProcessRegistry()

    @property
    def processes(self) -> list[Process]:
        """Every process that wrote something or left a manifest, lowest rank first."""
        processes = [*self.source.processes, *self._registry.processes.values()]
        return sorted(processes, key=lambda process: (process.rank is None, process.rank or 0, process.first))

    def records(self, advance: Callable[[int], object] = lambda _: None) -> Iterator[Record]:
        """Yield all records of the run, file by file; ``advance`` gets the bytes read so far, piece by piece.

        Raises:
            UnusableInput: not one of the files can be read.
        """
        for file in self.source.files:
            problems = Unreadable()
            for request in requests(file.path, problems, advance):
                yield from self._of_this_run(request, file)
            self._count(problems, file)
        if self.source.files and len(self.problems.errors) == len(self.source.files):
            raise UnusableInput(f"none of the files can be read: {self.problems.errors[0]}")

    def traces(self, trace_ids: set[str], problems: Unreadable | None = None) -> Iterator[Span]:
        """All spans of a few traces; lines that do not name one of them are not even parsed.

        ``problems`` collects the files that cannot be read, which :meth:`records` has told where it read them too.
        """
        for file in self.source.files:
            if file.signal != "traces":
                continue
            for line in matching_lines(file.path, of_traces(trace_ids), problems):
                request = parse(line, Unreadable())
                if request is not None:
                    yield from self._spans(request, file, trace_ids)

    def events(self, *names: str) -> Iterator[Log]:
        """All log records of the run with these event names; lines that hold none are not even parsed."""
        logs = [file for file in self.source.files if file.signal not in ("traces", "metrics")]
        for streams in written_together(logs):
            found = (self._events_of(files, *names) for files in streams)
            yield from (log for log in merge(*found, key=_moment) if log.event in names)

    def _events_of(self, files: list[SignalFile], *names: str) -> Iterator[Log]:
        for file in files:
            for line in matching_lines(file.path, having(*names)):
                request = parse(line, Unreadable())
                for record in records(request, self._registry.finder(file.process)) if request is not None else ():
                    is_other = file.process is None and self._is_other_run(record.process)
                    if isinstance(record, Log) and not is_other:
                        yield record

    def _spans(self, request: dict[str, Any], file: SignalFile, trace_ids: set[str]) -> Iterator[Span]:
        leave_traces(request, trace_ids)
        for record in records(request, self._registry.finder(file.process)):
            if isinstance(record, Span):
                yield record

    def _of_this_run(self, request: dict[str, Any], file: SignalFile) -> Iterator[Record]:
        for record in records(request, self._registry.finder(file.process)):
            if file.process is None and self._is_other_run(record.process):
                self.left_out += 1
                continue
            _count_record(record)
            yield record

    def _is_other_run(self, process: Process) -> bool:
        named = process.resource.get(names.RL_RUN_ID)
        if named is None:
            return self.source.is_mixed
        return bool(named != self.source.run_id)

    def _count(self, problems: Unreadable, file: SignalFile) -> None:
        self.problems.add(problems)
        if file.process is not None:
            file.process.unreadable.add(problems)


def _moment(record: Record) -> tuple[int, int]:
    """Return what orders the records of files that are written together."""
    # Of two spans that end together, the one that began later is inside the other.
    return (record.end, -record.start) if isinstance(record, Span) else (record.time, 0)


def _count_record(record: Record) -> None:
    process = record.process
    if isinstance(record, Span):
        process.spans += 1
        process.saw(record.start, record.end)
    elif isinstance(record, Point):
        process.points += 1
        process.saw(record.start or record.time, record.time)
    else:
        process.logs += 1
        process.saw(record.time, record.time)
