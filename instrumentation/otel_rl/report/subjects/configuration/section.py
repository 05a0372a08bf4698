"""The section with the settings of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value
from otel_rl.report.subjects.configuration.settings import by_source

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected


def build(collected: Collected, _charts: Charts) -> Section:
    """Return a table per source; settings without a value come last."""
    section = Section("configuration", "Configuration", "Settings come from a `Trainer` or a tracker.")
    of_source = by_source(collected)
    for source, settings in of_source.items():
        table = Table(["Setting", "Value"], filters=True)
        for name, value in sorted(settings.items(), key=lambda item: item[1] is None):
            table.rows.append([Value(name), Value(_words(value), tone="muted" if value is None else "")])
        section.blocks.append(PageBlock(title=source, table=table))
    amounts = [f"{human.amount(len(settings), 'setting')} of {source}" for source, settings in of_source.items()]
    section.brief = human.listed(amounts)
    return section


def _words(value: Any) -> str:
    return "none" if value is None else str(value)
