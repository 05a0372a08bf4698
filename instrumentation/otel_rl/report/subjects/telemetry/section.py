"""The section on telemetry health: drops, unreadable and excluded data, and instrumentors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, sentences
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value, number_cell
from otel_rl.report.subjects.endings import process_end
from otel_rl.report.subjects.telemetry.aggregate import drops, internal_errors
from otel_rl.store.reader.end_states import EndState

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected

_NOTHING_LOST = "No drop was counted, and every line could be read."
#: States of an instrumentor that ask nothing of the reader.
_IN_ORDER = ("active", "waiting", "skipped")
#: What a killed process takes along; the intervals of delivery.
_TAIL = "what had not been delivered is missing and not counted, up to 5 s of spans and 15 s of metrics."


def build(collected: Collected, _charts: Charts) -> Section:
    """Build the section on telemetry health: drops, unreadable and excluded data, and instrumentors."""
    section = Section("telemetry", "Telemetry health", "")
    table = _dropped(collected)
    unreadable = sentences.unreadable(collected.reader.problems)
    if table.rows:
        section.blocks.append(
            PageBlock("Dropped", "Items that a process did not record or could not deliver, by reason.", table)
        )
    if unreadable:
        section.blocks.append(PageBlock("Not read", unreadable, text="\n".join(collected.reader.problems.errors)))
    left_out = [f"{remark}." for remark in collected.reader.source.remarks]
    if collected.reader.left_out:
        left_out.append(f"{human.amount(collected.reader.left_out, 'record')} of other runs in the same files.")
    if left_out:
        section.blocks.append(PageBlock("Left out", " ".join(left_out)))
    sites = internal_errors(collected.totals)
    if sites:
        said = "\n".join(f"{site}: {number}" for site, number in sites.items())
        section.blocks.append(PageBlock("Errors inside the instrumentation", text=said))
    if not section.blocks:
        section.blocks.append(PageBlock(note=_NOTHING_LOST))
    # One that has failed may have delivered all the same.
    unclean = [
        end.process.label
        for end in process_end.every_end(collected).values()
        if end.process.manifest is not None and not end.is_recorded and end.state is not EndState.RUNNING
    ]
    if unclean:
        section.blocks.append(PageBlock(note=f"{human.listed(unclean)} did not end in order: {_TAIL}"))
    outcomes = _instrumentors(collected)
    if outcomes.rows:
        section.blocks.append(PageBlock("Instrumentors", table=outcomes))
    states = {state: {row[0].text for row in outcomes.rows if row[1].text == state} for state in _IN_ORDER}
    is_in_order = not table.rows and not unreadable and not sites and not unclean and not left_out
    if is_in_order and all(row[1].text in _IN_ORDER for row in outcomes.rows):
        section.brief = _NOTHING_LOST.rstrip(".") + _instrumented(states)
    return section


def _instrumented(states: dict[str, set[str]]) -> str:
    active, waiting = (
        sorted(name.removeprefix("otel_rl_") for name in states[state]) for state in ("active", "waiting")
    )
    said = f"; active: {human.listed(active)}" if active else ""
    return said + (f"; {len(waiting)} wait for an import" if waiting else "")


def _dropped(collected: Collected) -> Table:
    """Build the table of drops per process, signal and reason."""
    table = Table(["Process", "Signal", "Reason", ">Items"])
    for drop in drops(collected.reader.processes, collected.totals):
        reason = Value(drop.reason.replace("_", " "))
        table.rows.append([Value(drop.who), Value(drop.signal), reason, Value(human.number(drop.number), drop.number)])
    for process, number in collected.tables.cut_off.items():
        reason = Value("over the limits of a span")
        table.rows.append([Value(process.label), Value("attributes, events, links"), reason, number_cell(number)])
    return table


def _instrumentors(collected: Collected) -> Table:
    """Build the table of instrumentors with their state and its reason."""
    outcomes: dict[tuple[str, str, str], list[str]] = {}
    for process in collected.reader.processes:
        for name, outcome in process.mapping("instrumentors").items():
            if isinstance(outcome, dict):
                key = (str(name), str(outcome.get("state", "")), str(outcome.get("reason", "")))
                outcomes.setdefault(key, []).append(process.label)
    table = Table(["Instrumentor", "State", "Why", "Processes"], shown=40)
    tones = {"active": "good", "degraded": "bad", "failed": "bad"}
    for (name, state, reason), who in sorted(outcomes.items()):
        shown = ", ".join(who[:4]) + (f" and {len(who) - 4} more" if len(who) > 4 else "")  # noqa: PLR2004
        table.rows.append([Value(name), Value(state, tone=tones.get(state, "muted")), Value(reason), Value(shown)])
    return table
