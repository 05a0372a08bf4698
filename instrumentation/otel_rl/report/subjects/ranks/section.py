"""The section on ranks and collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import sentences
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.subjects.ranks import collectives, last_rank_finding, late_rank_tables, rank_tables

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected


def build(collected: Collected, charts: Charts) -> Section:
    """Return own work by rank, late ranks, and collectives."""
    steps = collected.steps
    filler = "Ranks and collectives come from torch.distributed; this run used none of it, or nothing recorded it."
    section = Section("ranks", "Ranks and collectives", filler)
    several = len([rank for rank in steps.ranks if rank is not None]) > 1
    totals = collectives.table(collected.totals)
    if several:
        compared = steps.count_slowest()
        section.lead = "A rank that works longer than the others reaches the collectives last, and they wait for it."
        if steps.unseen.count:
            section.lead += f" {sentences.unseen(steps)}"
        hint = "step time without time in collectives"
        if steps.seen.count:
            drawing = charts.ranks("Own work per step", hint, steps.own, "own-work")
            section.blocks.append(PageBlock(charts=[drawing]))
        section.blocks.append(PageBlock(table=rank_tables.ranks(steps, compared)))
        section.blocks += late_rank_tables.stragglers(collected)
    section.blocks += late_rank_tables.reported_stragglers(collected)
    section.blocks += last_rank_finding.blocks(collected)
    if totals:
        section.blocks.append(PageBlock("Collectives", "All ranks together.", rank_tables.collective_totals(totals)))
    if slow := steps.slowest_collectives:
        section.blocks.append(PageBlock("Slowest single collectives", table=rank_tables.slow_collectives(slow)))
    return section
