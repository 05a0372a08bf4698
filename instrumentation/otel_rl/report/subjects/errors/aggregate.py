"""Errors of the run, and everything that telemetry lost on its way here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.operations import error_of
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics
from otel_rl.store.reader.records import ERROR_SEVERITY

if TYPE_CHECKING:
    from otel_rl.report.core.totals import MetricTotals
    from otel_rl.store.reader import Log, Process, Span

METRICS = (metrics.RL_TELEMETRY_DROPPED, metrics.RL_TELEMETRY_ERRORS)
_GROUPS = 200
_EXCEPTIONS = 20
_MESSAGE_LENGTH = 300
#: ``error.type`` of the span that the LangChain instrumentor makes for a tool that does not exist.
_UNKNOWN_TOOL = "unknown_tool"
#: Most calls of unknown tools that are matched with their events.
_UNKNOWN_TOOLS = 10_000


@dataclass(slots=True)
class ErrorGroup:
    """Errors that look alike; ``first`` in ns since the epoch."""

    where: str
    kind: str
    message: str
    number: int
    first: int
    who: str
    iteration: int | None


@dataclass(frozen=True, slots=True)
class UncaughtException:
    """An uncaught exception that ended a process."""

    kind: str
    message: str
    stacktrace: str
    who: str
    iteration: int | None
    time: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Items that a process could not deliver."""

    who: str
    signal: str
    reason: str
    number: int


class Problems:
    """Groups of errors, the uncaught exceptions, and what was cut off from spans."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str, str], ErrorGroup] = {}
        self.exceptions: list[UncaughtException] = []
        self.number = 0
        self.groups_left_out = 0
        self.dropped_from_spans: dict[str, int] = {}
        #: Spans of calls of unknown tools, from the span itself or from the event in it.
        self._unknown_tools: dict[str, str] = {}

    def add_span(self, span: Span) -> None:
        """Take in a span: an error, or attributes, events or links that were cut off."""
        if span.dropped:
            who = span.process.label
            self.dropped_from_spans[who] = self.dropped_from_spans.get(who, 0) + span.dropped
        kind = error_of(span)
        if kind and not (kind == _UNKNOWN_TOOL and self._is_counted(span.span_id, "span")):
            message = "" if span.message == kind else span.message
            self._add(span.name, kind, message, span.start, span.process, span.attributes)

    def add_log(self, log: Log) -> None:
        """Take in a log record: an uncaught exception, or any record of severity ERROR and above."""
        if log.event == events.RL_PROCESS_EXCEPTION.name:
            self.number += 1
            if len(self.exceptions) < _EXCEPTIONS:
                self.exceptions.append(_exception(log))
        elif log.severity >= ERROR_SEVERITY:
            kind = str(log.attributes.get(names.EXCEPTION_TYPE) or log.severity_text or "error")
            message = str(log.attributes.get(names.EXCEPTION_MESSAGE) or log.body or log.event)
            self._add(log.event or f"log {log.scope}".strip(), kind, message, log.time, log.process, log.attributes)
        elif log.event == events.RL_TOOL_UNKNOWN.name and not self._is_counted(log.span_id, "event"):
            tool = str(log.attributes.get(names.GEN_AI_TOOL_NAME))
            self._add(f"tool {tool}", "unknown tool", "", log.time, log.process, log.attributes)

    def _is_counted(self, span_id: str, source: str) -> bool:
        """Return whether an unknown tool has been counted already: its error span and its event both report it."""
        if len(self._unknown_tools) >= _UNKNOWN_TOOLS:
            return False
        return bool(span_id) and self._unknown_tools.setdefault(span_id, source) != source

    def _add(self, where: str, kind: str, message: str, time: int, process: Process, values: dict[str, Any]) -> None:
        self.number += 1
        message = message if len(message) <= _MESSAGE_LENGTH else message[:_MESSAGE_LENGTH] + "…"
        key = (where, kind, message)
        group = self.groups.get(key)
        if group is not None:
            group.number += 1
            return
        if len(self.groups) >= _GROUPS:
            self.groups_left_out += 1
            return
        self.groups[key] = ErrorGroup(where, kind, message, 1, time, process.label, _iteration(values))

    def table(self) -> list[ErrorGroup]:
        """Return groups of errors, the most frequent first."""
        return sorted(self.groups.values(), key=lambda group: (-group.number, group.first))


def _exception(log: Log) -> UncaughtException:
    get = log.attributes.get
    return UncaughtException(
        kind=str(get(names.EXCEPTION_TYPE) or "exception"),
        message=str(get(names.EXCEPTION_MESSAGE) or ""),
        stacktrace=str(get(names.EXCEPTION_STACKTRACE) or ""),
        who=log.process.label,
        iteration=_iteration(log.attributes),
        time=log.time,
    )


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
