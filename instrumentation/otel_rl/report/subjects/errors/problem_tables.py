"""Tables on what went wrong: errors, drops, processes, instrumentors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.subjects.errors.aggregate import drops
from otel_rl.semconv import attributes as names

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Process


def errors(collected: Collected) -> Table:
    """Errors that look alike, the most frequent first."""
    table = Table(["Where", "Error", "Message", ">Times", "First by", ">First at step"])
    for group in collected.problems.table():
        first = [Value(group.who), number_cell(group.iteration)]
        error = Value(group.kind, tone="bad")
        table.rows.append([Value(group.where), error, Value(group.message), number_cell(group.number), *first])
    return table


def dropped(collected: Collected) -> Table:
    """Build the table of drops per process, signal and reason."""
    table = Table(["Process", "Signal", "Reason", ">Items"])
    for drop in drops(collected.reader.processes, collected.totals):
        reason = Value(drop.reason.replace("_", " "))
        table.rows.append([Value(drop.who), Value(drop.signal), reason, Value(human.number(drop.number), drop.number)])
    for who, number in collected.problems.dropped_from_spans.items():
        reason = Value("over the limits of a span")
        table.rows.append([Value(who), Value("attributes, events, links"), reason, number_cell(number)])
    return table


def processes(collected: Collected, offsets: dict[str, float]) -> Table:
    """Build the table of processes that reported."""
    table = Table(
        ["Process", "Role", "Host", ">PID", "Ended", ">Lived", ">Spans", ">Points", ">Logs", ">Clock offset"], shown=24
    )
    for process in collected.reader.processes:
        counts = [number_cell(value) for value in (process.spans, process.points, process.logs)]
        table.rows.append(
            [
                Value(process.label, process.rank),
                Value(str(process.identity(names.RL_ROLE) or human.UNKNOWN)),
                Value(str(process.identity(names.HOST_NAME) or human.UNKNOWN)),
                Value(str(process.identity(names.PROCESS_PID) or human.UNKNOWN)),
                ending(process),
                seconds_cell(lifetime(process)),
                *counts,
                seconds_cell(offsets.get(process.key)),
            ]
        )
    return table


def ending(process: Process) -> Value:
    """Describe the end of the process in words."""
    if process.manifest is None:
        return Value(f"unknown: {process.manifest_error or 'files of a collector do not tell'}", tone="muted")
    reason = process.manifest.get("exit_reason")
    if process.clean_exit:
        return Value("normally", tone="good")
    if reason:
        return Value(f"not cleanly: {reason}", tone="bad")
    return Value("no end recorded: killed, crashed, or still running", tone="bad")


def lifetime(process: Process) -> float | None:
    """Seconds from start to end, as its manifest says, else as its records show."""
    start, end = process.number("started_unix_nano") or process.first, process.number("ended_unix_nano") or process.last
    return (end - start) / 1e9 if start and end and end >= start else None


def instrumentors(collected: Collected) -> Table:
    """Build the table of instrumentors with their state and its reason."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for process in collected.reader.processes:
        for name, outcome in process.mapping("instrumentors").items():
            if isinstance(outcome, dict):
                key = (str(name), str(outcome.get("state", "")), str(outcome.get("reason", "")))
                found.setdefault(key, []).append(process.label)
    table = Table(["Instrumentor", "State", "Why", "Processes"], shown=40)
    tones = {"active": "good", "degraded": "bad", "failed": "bad"}
    for (name, state, reason), who in sorted(found.items()):
        shown = ", ".join(who[:4]) + (f" and {len(who) - 4} more" if len(who) > 4 else "")  # noqa: PLR2004
        table.rows.append([Value(name), Value(state, tone=tones.get(state, "muted")), Value(reason), Value(shown)])
    return table
