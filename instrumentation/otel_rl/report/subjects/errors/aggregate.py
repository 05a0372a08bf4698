"""Errors of the run, and everything that telemetry lost on its way here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics
from otel_rl.store.reader.otlp_values import int_or_none
from otel_rl.store.reader.records import ERROR_SEVERITY
from otel_rl.store.reader.uncaught_exceptions import UncaughtException, exception_of
from otel_rl.store.tables.operations import error_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.totals import MetricTotals
    from otel_rl.store.reader import Log, Process, Span

METRICS = (metrics.RL_TELEMETRY_DROPPED, metrics.RL_TELEMETRY_ERRORS)
_GROUPS = 200
#: Uncaught exceptions of which the stack is kept, and that are kept at all.
_STACKS, _EXCEPTIONS = 20, 10_000
_MESSAGE_LENGTH = 300
#: ``error.type`` of the span that the LangChain instrumentor makes for a tool that does not exist.
_UNKNOWN_TOOL = "unknown_tool"
#: Most calls of unknown tools that are matched with their events.
_UNKNOWN_TOOLS = 10_000
#: Most failures that are compared with each other; further ones are counted as they come.
_COMPARED = 50_000
#: Seconds for which an uncaught exception passes through spans before its record, and after it.
_BEFORE, _AFTER = 60.0, 5.0
#: Steps and phases, of which one ends once.
_OWN = "rl."
_EXIT = "SystemExit"


@dataclass(slots=True)
class ErrorGroup:
    """Errors that look alike; ``first`` in ns since the epoch, ``who`` and ``iteration`` are those of the first one."""

    where: str
    kind: str
    message: str
    number: int
    first: int
    who: str
    iteration: int | None
    #: Ranks that they are of; None is a process without a number.
    ranks: frozenset[int | None]
    #: How many of them are failed spans; the others are log records.
    spans: int = 0

    @property
    def is_hang(self) -> bool:
        """True for what a watchdog has reported."""
        return self.where == events.RL_HANG.name


@dataclass(frozen=True, slots=True)
class Drop:
    """Items that a process could not deliver."""

    who: str
    signal: str
    reason: str
    number: int


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed span, or a log record of an error, until it is known whether another one reports the same."""

    where: str
    kind: str
    message: str
    start: int
    end: int
    process: Process
    iteration: int | None
    #: Of a log record the span in which it was made.
    span_id: str
    parent_id: str = ""
    is_span: bool = False
    is_server: bool = False
    child_pid: int | None = None


class Problems:
    """Groups of errors, the uncaught exceptions, and what was cut off from spans. Each error counts once."""

    def __init__(self) -> None:
        self.exceptions: list[UncaughtException] = []
        self.dropped_from_spans: dict[str, int] = {}
        self._failures: list[_Failure] = []
        #: Failures beyond those that are compared.
        self._further: dict[tuple[str, str, str], ErrorGroup] = {}
        self._further_left_out = 0
        self._settled: tuple[list[ErrorGroup], int] | None = None
        #: Spans of calls of unknown tools, from the span itself or from the event in it.
        self._unknown_tools: dict[str, str] = {}

    @property
    def number(self) -> int:
        """How many errors there were, uncaught exceptions too; Ctrl-C is none."""
        uncaught = sum(not exception.is_interrupt for exception in self.exceptions)
        return uncaught + sum(group.number for group in self.table()) + self.groups_left_out

    @property
    def groups_left_out(self) -> int:
        """Errors of further kinds than :meth:`table` lists."""
        return self._settle()[1]

    def table(self) -> list[ErrorGroup]:
        """Return groups of errors, the most frequent first."""
        return self._settle()[0]

    def add_span(self, span: Span) -> None:
        """Take in a span: an error, or attributes, events or links that were cut off."""
        if span.dropped:
            who = span.process.label
            self.dropped_from_spans[who] = self.dropped_from_spans.get(who, 0) + span.dropped
        kind = error_of(span)
        if kind and not (kind == _UNKNOWN_TOOL and self._is_counted(span.span_id, "span")):
            message = "" if span.message == kind else span.message
            self._keep(
                _Failure(
                    span.name, kind, message, span.start, span.end, span.process, _iteration(span.attributes),
                    span.span_id, span.parent_id, is_span=True, is_server=span.is_server,
                )
            )  # fmt: skip

    def add_log(self, log: Log) -> None:
        """Take in a log record: an uncaught exception, or any record of severity ERROR and above."""
        if log.event == events.RL_PROCESS_EXCEPTION.name:
            self._add_exception(exception_of(log))
        elif log.severity >= ERROR_SEVERITY:
            kind = str(log.attributes.get(names.EXCEPTION_TYPE) or log.severity_text or "error")
            message = str(log.attributes.get(names.EXCEPTION_MESSAGE) or log.body or log.event)
            self._keep_log(log, log.event or f"log {log.scope}".strip(), kind, message)
        elif log.event == events.RL_TOOL_UNKNOWN.name and not self._is_counted(log.span_id, "event"):
            self._keep_log(log, f"tool {log.attributes.get(names.GEN_AI_TOOL_NAME)}", "unknown tool", "")

    def _add_exception(self, exception: UncaughtException) -> None:
        if len(self.exceptions) >= _EXCEPTIONS:
            return
        self._settled = None
        self.exceptions.append(exception)
        # The first ones in time are those to be shown.
        self.exceptions.sort(key=lambda one: one.time)
        for place in range(_STACKS, len(self.exceptions)):
            if self.exceptions[place].stacktrace:
                self.exceptions[place] = replace(self.exceptions[place], stacktrace="")

    def _is_counted(self, span_id: str, source: str) -> bool:
        """Return whether an unknown tool has been counted already: its error span and its event both report it."""
        if len(self._unknown_tools) >= _UNKNOWN_TOOLS:
            return False
        return bool(span_id) and self._unknown_tools.setdefault(span_id, source) != source

    def _keep_log(self, log: Log, where: str, kind: str, message: str) -> None:
        pid = int_or_none(log.attributes.get(names.RL_CHILD_PID))
        place = _iteration(log.attributes)
        self._keep(_Failure(where, kind, message, log.time, log.time, log.process, place, log.span_id, child_pid=pid))

    def _keep(self, failure: _Failure) -> None:
        self._settled = None
        if len(self._failures) < _COMPARED:
            self._failures.append(failure)
        elif not _group(self._further, failure):
            self._further_left_out += 1

    def _settle(self) -> tuple[list[ErrorGroup], int]:
        """Return the groups of errors, each error counted once, and the number of those in no group."""
        if self._settled is None:
            groups = {key: replace(group) for key, group in self._further.items()}
            left_out = self._further_left_out
            for failure in _each_once(self._failures, self.exceptions):
                left_out += not _group(groups, failure)
            table = sorted(groups.values(), key=lambda group: (-group.number, group.first))
            self._settled = table, left_out
        return self._settled


def _group(groups: dict[tuple[str, str, str], ErrorGroup], failure: _Failure) -> bool:
    """Add the failure to those that look alike; False where there are too many kinds."""
    message = failure.message
    message = message if len(message) <= _MESSAGE_LENGTH else message[:_MESSAGE_LENGTH] + "…"
    key = (failure.where, failure.kind, message)
    group = groups.get(key)
    if group is not None:
        group.number += 1
        group.spans += failure.is_span
        group.ranks |= {failure.process.rank}
        return True
    if len(groups) >= _GROUPS:
        return False
    process, spans = failure.process, int(failure.is_span)
    groups[key] = ErrorGroup(*key, 1, failure.start, process.label, failure.iteration, frozenset([process.rank]), spans)
    return True


def _each_once(failures: list[_Failure], exceptions: list[UncaughtException]) -> Iterator[_Failure]:
    """Yield each error once: none that an uncaught exception explains, and of nested spans the innermost."""
    uncaught: dict[str, list[UncaughtException]] = {}
    for exception in exceptions:
        uncaught.setdefault(exception.process.key, []).append(exception)
    latest: dict[tuple[str, str], int] = {}
    for failure in failures:
        key = failure.process.key, failure.where
        latest[key] = max(latest.get(key, 0), failure.end)
    pids = {exception.process.identity(names.PROCESS_PID) for exception in exceptions}
    spans = {failure.span_id: failure for failure in failures if failure.is_span}
    outer = {id(spans[one.parent_id]) for one in spans.values() if _is_passed_on(one, spans.get(one.parent_id))}
    for failure in failures:
        is_same_record = not failure.is_span and _is_of(failure, spans.get(failure.span_id))
        is_of_child = failure.child_pid is not None and failure.child_pid in pids
        # Of calls that failed alike, and were tried again, it was the last one.
        may_be = failure.where.startswith(_OWN) or failure.end == latest[failure.process.key, failure.where]
        is_explained = may_be and any(_went_through(one, failure) for one in uncaught.get(failure.process.key, ()))
        # How the process ended is said with its status.
        is_exit = failure.kind == _EXIT and failure.where.startswith(_OWN)
        if id(failure) not in outer and not (is_same_record or is_of_child or is_explained or is_exit):
            yield failure


def _is_passed_on(inner: _Failure, outer: _Failure | None) -> bool:
    """Return whether ``outer``, the span around ``inner``, failed because of it."""
    if outer is None:
        return False
    # What a server answers, its client reports in its own words.
    return inner.kind == outer.kind or inner.is_server or inner.process is not outer.process


def _is_of(record: _Failure, span: _Failure | None) -> bool:
    """Return whether the log record reports the failure of its own span."""
    return span is not None and record.kind == span.kind


def _went_through(exception: UncaughtException, failure: _Failure) -> bool:
    """Return whether the uncaught exception ended the span, or the log record reports it."""
    seconds = (exception.time - failure.end) / 1e9
    return failure.kind in exception.kinds and -_AFTER <= seconds <= _BEFORE


def _iteration(values: dict[str, Any]) -> int | None:
    value = values.get(names.RL_LOOP_ITERATION)
    return value if isinstance(value, int) else None


def drops(processes: list[Process], totals: MetricTotals) -> list[Drop]:
    """List the drops of each process. Manifest and metric count the same items, so the larger number wins."""
    counted: dict[tuple[str, str, str], int] = {}
    labels = {process.key: process.label for process in processes}
    for process in processes:
        for signal, reasons in process.mapping("dropped").items():
            for reason, number in reasons.items() if isinstance(reasons, dict) else ():
                if isinstance(number, int) and number > 0:
                    counted[process.key, str(signal), str(reason)] = number
    for series in totals.of(metrics.RL_TELEMETRY_DROPPED):
        signal = str(series.attributes.get(names.RL_TELEMETRY_SIGNAL))
        key = (series.process.key, signal, str(series.attributes.get(names.RL_TELEMETRY_DROP_REASON)))
        if series.value > 0:
            counted[key] = max(counted.get(key, 0), round(series.value))
    return [Drop(labels.get(who, who), signal, reason, number) for (who, signal, reason), number in counted.items()]


def internal_errors(totals: MetricTotals) -> dict[str, int]:
    """Return errors inside the instrumentation itself, by the place where they happened."""
    sites: dict[str, int] = {}
    for series in totals.of(metrics.RL_TELEMETRY_ERRORS):
        site = str(series.attributes.get(names.RL_TELEMETRY_SITE))
        sites[site] = sites.get(site, 0) + round(series.value)
    return {site: number for site, number in sorted(sites.items()) if number}
