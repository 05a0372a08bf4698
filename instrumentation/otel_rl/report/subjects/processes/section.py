"""The section on processes: those that reported, and missing ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.core.summary import summarise
from otel_rl.report.subjects.endings import process_end
from otel_rl.report.subjects.processes import worker_calls
from otel_rl.report.subjects.ranks import collectives
from otel_rl.semconv import attributes as names
from otel_rl.store.reader.end_states import EndState

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.summary import Summary
    from otel_rl.report.subjects.endings.process_end import ProcessEnd
    from otel_rl.store.reader import Process


def build(collected: Collected, _charts: Charts) -> Section:
    """Build the section on processes: those that reported, and missing ranks."""
    section = Section("processes", "Who reported", "No process left a manifest or a record.")
    facts = summarise(collected)
    offsets = collectives.clock_offsets(collected.totals)
    table = _table(collected, offsets)
    if facts.missing:
        ranks = human.listed([str(rank) for rank in facts.missing])
        section.lead = (
            f"Of {facts.world_size} ranks these did not report: {ranks}. They never started, were started by something "
            "that otel-rl does not know as a launcher (OTEL_RL_CHILDREN=all), could not write, or their files were not "
            "copied here."
        )
    elif facts.world_size:
        section.lead = f"All {facts.world_size} ranks reported."
    elif facts.reported:
        section.lead = "The world size is not known, so a missing rank cannot be told."
    if table.rows:
        section.blocks.append(PageBlock(table=table))
    calls = worker_calls.table(collected)
    if calls.rows:
        section.blocks.append(PageBlock("Calls of workers", worker_calls.LEAD, calls))
    section.brief = _brief(collected, facts)
    return section


def _brief(collected: Collected, facts: Summary) -> str:
    """Return how many processes there were; nothing where one is missing or did not end in order."""
    processes = collected.reader.processes
    if facts.missing or not processes or any(not process.clean_exit for process in processes):
        return ""
    if len(processes) == 1:
        return f"{processes[0].label} ended normally"
    return f"{human.amount(len(processes), 'process', 'processes')}, all ended normally"


def _table(collected: Collected, offsets: dict[str, float]) -> Table:
    """Build the table of processes that reported."""
    table = Table(
        ["Process", "Role", "Host", ">PID", "Ended", ">Lived", ">Spans", ">Points", ">Logs", ">Clock offset"], shown=24
    )
    ends = process_end.every_end(collected)
    for process in collected.reader.processes:
        counts = [number_cell(value) for value in (process.spans, process.points, process.logs)]
        table.rows.append(
            [
                Value(process.label, process.rank),
                Value(str(process.identity(names.RL_ROLE) or human.UNKNOWN)),
                Value(str(process.identity(names.HOST_NAME) or human.UNKNOWN)),
                Value(str(process.identity(names.PROCESS_PID) or human.UNKNOWN)),
                ending(process, ends[process.key]),
                seconds_cell(lifetime(process)),
                *counts,
                seconds_cell(offsets.get(process.key)),
            ]
        )
    return table


def ending(process: Process, end: ProcessEnd) -> Value:
    """Describe the end of the process in words."""
    if end.state is EndState.NOT_RECORDED and process.manifest is None and not process.is_of_ray:
        return Value(f"unknown: {process.manifest_error or 'files of a collector do not tell'}", tone="muted")
    tone = "bad" if end.is_bad else "good" if end.state in (EndState.IN_ORDER, EndState.RUNNING) else "muted"
    return Value(end.words, tone=tone)


def lifetime(process: Process) -> float | None:
    """Return seconds from start to end, as its manifest says, else as its records show; None for an import."""
    if process.imported_from:
        return None
    start, end = process.number("started_unix_nano") or process.first, process.number("ended_unix_nano") or process.last
    return (end - start) / 1e9 if start and end and end >= start else None
