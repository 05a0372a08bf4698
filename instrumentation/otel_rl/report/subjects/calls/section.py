"""The sections on tool calls and model calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.messages import VARIABLE
from otel_rl.report.subjects.calls import call_tables, call_texts, over_time_charts, statistics
from otel_rl.report.subjects.calls.call_texts import OF_A_KIND, OF_ALL_PARTS
from otel_rl.store.tables.load import MODEL, TOOL

if TYPE_CHECKING:
    from otel_rl.report.core.cells import Table
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected


def tools(collected: Collected, charts: Charts) -> Section:
    """Return the section on tool calls."""
    filler = "Tool calls come from tools given to a supported trainer or agent framework, or from otel_rl.tool()."
    section, called = Section("tools", "Tool calls", filler), call_tables.calls(statistics.tools(collected), "Tool")
    return _filled(section, collected, TOOL, called, over_time_charts.tools(collected, charts), "Tool")


def models(collected: Collected, charts: Charts) -> Section:
    """Return the section on model calls."""
    filler = "Model calls come from a client library such as openai, called by this run."
    section, called = Section("models", "Model calls", filler), call_tables.models(statistics.models(collected))
    columns = "Call", "Tokens (in / out)"
    return _filled(section, collected, MODEL, called, over_time_charts.models(collected, charts), *columns)


def _filled(
    section: Section, collected: Collected, kind: str, called: Table, drawn: list[PageBlock], *columns: str
) -> Section:
    section.blocks += [PageBlock(table=called)] if called.rows else []
    section.blocks += drawn
    if slow := statistics.slowest(collected, kind):
        section.blocks.append(PageBlock("Slowest calls", table=call_tables.slow_calls(slow, *columns)))
        section.blocks += _texts(collected, kind)
    return section


def _texts(collected: Collected, kind: str) -> list[PageBlock]:
    """Return the calls whose text can be read, or what would record it."""
    kept = call_texts.kept(collected)
    if kind not in kept:
        said = f"What was said in a call is not recorded; {VARIABLE} records it."
        return [] if kept else [PageBlock(note=said)]
    number, texts = kept[kind]
    title = f"{human.number(len(texts))} of {human.amount(number, 'call')} to read"
    note = f"{_KEPT} {human.number(number - len(texts))} are left out." if number > len(texts) else ""
    return [
        PageBlock(title, note, call_tables.texts(texts)),
        PageBlock("What was said", folded=True, conversations=[call.conversation() for call in texts]),
    ]


_KEPT = (
    f"The latest {OF_A_KIND} that failed, the {OF_A_KIND} slowest, the {OF_A_KIND} latest and up to {OF_ALL_PARTS} from"
    " all parts of the run."
)
