"""The section on errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value, number_cell
from otel_rl.report.core.messages import VARIABLE
from otel_rl.report.subjects.calls import call_texts
from otel_rl.report.subjects.endings import words
from otel_rl.report.subjects.errors import groups
from otel_rl.semconv.attributes import GenAiOperationNameValues as Operation
from otel_rl.store.reader import uncaught_exceptions
from otel_rl.store.tables.operations import MODEL_OPERATIONS

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.errors.groups import ErrorGroup

#: So many exceptions are shown with their stacks.
_EXCEPTIONS = 20


def build(collected: Collected, _charts: Charts) -> Section:
    """Return uncaught exceptions and groups of errors."""
    section = Section("errors", "Errors", "No error was recorded: no failed span, no log record of severity ERROR.")
    shown = [exception for exception in groups.uncaught(collected) if not exception.is_interrupt][:_EXCEPTIONS]
    for place, exception in enumerate(shown):
        at = f", step {exception.iteration}" if exception.iteration is not None else ""
        who = f"Thread {exception.thread} of {exception.who}" if exception.thread else exception.who
        who = who if exception.cell is None else f"Cell {exception.cell} of {who}"
        title = f"{who}: {uncaught_exceptions.what(exception)}{at}"
        # The first one in time is that of the headline.
        section.blocks.append(
            PageBlock(title, " ".join(words.evidence(exception)), text=exception.stacktrace, folded=place > 0)
        )
    table = _table(collected)
    if table.rows:
        left = groups.left_out(collected)
        note = f"{left} further errors of other kinds are not listed." if left else ""
        section.blocks.append(PageBlock(note=note, table=table))
    return section


def _table(collected: Collected) -> Table:
    """Return errors that look alike, the most frequent first."""
    table = Table(["Where", "Error", "Message", ">Times", "First by", ">First at step"])
    for group in groups.table(collected):
        first = [Value(group.who), number_cell(group.iteration)]
        error = Value(group.kind, tone="bad")
        table.rows.append([Value(group.where), error, _message(group, collected), number_cell(group.number), *first])
    return table


def _message(group: ErrorGroup, collected: Collected) -> Value:
    """Return what an error says; of a call without a message, where its text stands or which variable records it."""
    if group.message or not group.where.startswith(_CALLS):
        return Value(group.message)
    if call_texts.kept(collected):
        return Value("read what was said, at the calls", link="models" if group.where.startswith(_MODELS) else "tools")
    return Value(f"content is not recorded ({VARIABLE})", tone="muted")


_MODELS = tuple(f"{operation} " for operation in MODEL_OPERATIONS)
#: How the spans of calls begin.
_CALLS = (*_MODELS, f"{Operation.EXECUTE_TOOL} ", "tools/call ")
