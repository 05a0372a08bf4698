"""The sections on tool calls and model calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.subjects.calls import call_tables, over_time_charts
from otel_rl.report.subjects.calls.aggregate import Calls

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected


def tools(collected: Collected, charts: Charts) -> Section:
    """Return the section on tool calls."""
    filler = "Tool calls come from tools given to a supported trainer or agent framework, or from otel_rl.tool()."
    section = Section("tools", "Tool calls", filler)
    statistics = collected[Calls].tools(collected.totals)
    if statistics:
        section.blocks.append(PageBlock(table=call_tables.calls(statistics, "Tool")))
    section.blocks += over_time_charts.tools(collected, charts)
    slow = collected[Calls].slowest_tools.items()
    if slow:
        section.blocks.append(PageBlock("Slowest calls", table=call_tables.slow_calls(slow, "Tool")))
    return section


def models(collected: Collected, charts: Charts) -> Section:
    """Return the section on model calls."""
    filler = "Model calls come from a client library such as openai, called by this run."
    section = Section("models", "Model calls", filler)
    statistics = collected[Calls].models(collected.totals)
    if statistics:
        section.blocks.append(PageBlock(table=call_tables.models(statistics)))
    section.blocks += over_time_charts.models(collected, charts)
    slow = collected[Calls].slowest_model_calls.items()
    if slow:
        section.blocks.append(
            PageBlock("Slowest calls", table=call_tables.slow_calls(slow, "Call", "Tokens (in / out)"))
        )
    return section
