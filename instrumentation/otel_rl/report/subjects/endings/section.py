"""What the flight recorder's rings say: how a run ended that did not end in order, and which rank was late of late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.ranks.postmortem import dump_text, text
from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value
from otel_rl.report.subjects.endings import process_end
from otel_rl.report.subjects.memory import section as pressure_section

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected


def build(collected: Collected, charts: Charts) -> Section:
    """Return how the run ended, first on the page; empty where the rings show nothing wrong."""
    filler = "No flight recorder shows a process that failed, or a rank that the others waited for unusually long."
    section = Section(process_end.SECTION, "How the run ended", filler)
    postmortem = collected.rings.postmortem
    if postmortem is None or not process_end.rings_tell(collected):
        return section
    section.lead = " ".join(f"{human.capital(line)}." for line in text.verdict(postmortem))
    when = "now" if postmortem.is_running else "the last sign of the run"
    table = Table([title.capitalize() for title in text.TITLES], shown=24)
    table.rows += [[Value(cell) for cell in row] for row in text.rows(postmortem)]
    section.blocks.append(PageBlock(note=f"Where each rank was; times before {when}.", table=table))
    waits = [*text.waits(postmortem), *text.unknown(postmortem), *text.chains(postmortem)]
    if waits:
        section.blocks.append(PageBlock("Who waited for whom", text="\n".join(waits)))
    dumped = text.dump_rows(postmortem)
    if dumped:
        dumps = Table([title.capitalize() for title in dump_text.TITLES], shown=24)
        dumps.rows += [[Value(cell) for cell in row] for row in dumped]
        note = f"The last collective of each rank and group; times before {when}."
        section.blocks.append(PageBlock("PyTorch's flight recorder", note, dumps))
    section.blocks += pressure_section.memory(collected, charts, "Memory up to the end")
    notes = text.notes(postmortem)
    if notes:
        section.blocks.append(PageBlock("Rings and dumps", text="\n".join(notes)))
    return section
