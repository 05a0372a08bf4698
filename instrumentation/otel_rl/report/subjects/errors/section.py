"""The sections on what went wrong: errors, who reported, what telemetry lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, sentences
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.summary import summarise
from otel_rl.report.subjects.errors import problem_tables
from otel_rl.report.subjects.errors.aggregate import internal_errors
from otel_rl.report.subjects.ranks import collectives

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected


#: What a killed process takes along; the intervals of delivery.
_TAIL = "what had not been delivered is missing and not counted, up to 5 s of spans and 15 s of metrics."


def errors(collected: Collected) -> Section:
    """Uncaught exceptions and groups of errors."""
    problems = collected.problems
    section = Section("errors", "Errors", "No error was recorded: no failed span, no log record of severity ERROR.")
    for one in problems.exceptions:
        at = f", step {one.iteration}" if one.iteration is not None else ""
        title = f"{one.who} died of {one.kind}{at}"
        section.blocks.append(PageBlock(title, one.message, text=one.stacktrace, folded=True))
    table = problem_tables.errors(collected)
    if table.rows:
        left = problems.groups_left_out
        note = f"{left} further errors of other kinds are not listed." if left else ""
        section.blocks.append(PageBlock(note=note, table=table))
    return section


def processes(collected: Collected) -> Section:
    """Build the section on processes: those that reported, and missing ranks."""
    section = Section("processes", "Who reported", "No process left a manifest or a record.")
    facts = summarise(collected)
    offsets = collectives.clock_offsets(collected.totals)
    table = problem_tables.processes(collected, offsets)
    if facts.missing:
        ranks = human.listed([str(rank) for rank in facts.missing])
        section.lead = (
            f"Of {facts.world_size} ranks these did not report: {ranks}. They never started, could not write, "
            "or their files were not copied here."
        )
    elif facts.world_size:
        section.lead = f"All {facts.world_size} ranks reported."
    elif facts.reported:
        section.lead = "The world size is not known, so a missing rank cannot be told."
    if table.rows:
        section.blocks.append(PageBlock(table=table))
    return section


def telemetry(collected: Collected) -> Section:
    """Build the section on telemetry health: drops, unreadable and excluded data, and instrumentors."""
    section = Section("telemetry", "Telemetry health", "")
    table = problem_tables.dropped(collected)
    unreadable = sentences.unreadable(collected.reader.problems)
    if table.rows:
        section.blocks.append(PageBlock("Dropped", "Items that a process could not deliver.", table))
    if unreadable:
        section.blocks.append(PageBlock("Not read", unreadable, text="\n".join(collected.reader.problems.errors)))
    if collected.reader.left_out:
        said = f"{human.amount(collected.reader.left_out, 'record')} of other runs in the same files."
        section.blocks.append(PageBlock("Left out", said))
    sites = internal_errors(collected.totals)
    if sites:
        said = "\n".join(f"{site}: {number}" for site, number in sites.items())
        section.blocks.append(PageBlock("Errors inside the instrumentation", text=said))
    if not section.blocks:
        section.blocks.append(PageBlock(note="No drop was counted, and every line could be read."))
    unclean = [process.label for process in collected.reader.processes if process.clean_exit is False]
    if unclean:
        section.blocks.append(PageBlock(note=f"{human.listed(unclean)} did not end in order: {_TAIL}"))
    outcomes = problem_tables.instrumentors(collected)
    if outcomes.rows:
        section.blocks.append(PageBlock("Instrumentors", table=outcomes))
    return section
