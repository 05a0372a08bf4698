"""What a page shows: the head, key figures, findings and sections, before they are HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.report.core import output
from otel_rl.report.core.charts import MOST_OF_REST, Charts
from otel_rl.report.core.summary import Summary, summarise
from otel_rl.report.page import finding_list, page_head, sections

if TYPE_CHECKING:
    from otel_rl.report.core.blocks import Section
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Overview
    from otel_rl.report.page.cards import Tile
    from otel_rl.report.page.finding_list import FindingEntry, Folded


@dataclass(slots=True)
class PageContents:
    """What the templates show.

    ``facts`` and ``tiles`` are the identity and the key figures; ``verdict`` and ``checked`` say what was looked for
    without a finding, ``not_checked`` what could not be; ``sections`` are open, ``folded`` have a line each, and
    ``empty`` ones say what would fill them.
    """

    head: Summary
    facts: list[tuple[str, str]]
    tiles: list[Tile]
    findings: list[FindingEntry]
    verdict: str
    checked: str
    not_checked: list[Folded]
    own_share: str
    sections: list[Section]
    folded: list[Section]
    empty: list[Section]
    charts: Charts


def contents(collected: Collected, overview: Overview, most_of_rest: int = MOST_OF_REST) -> PageContents:
    """Build all that a page shows; values that no panel shows are drawn up to a number of charts."""
    charts = Charts(overview.marks(), most_of_rest)
    built = sections.build(collected, charts, overview)
    head = summarise(collected)
    return PageContents(
        head=head,
        facts=page_head.facts(collected, head),
        tiles=page_head.tiles(collected, head),
        findings=finding_list.entries(overview, built, charts.figures),
        verdict=output.verdict(overview) if output.is_in_order(overview) else "",
        checked=output.checked_without_finding(overview),
        not_checked=finding_list.folded(overview),
        own_share=page_head.own_share(collected),
        sections=[section for section in built if section.blocks and not section.brief],
        folded=[section for section in built if section.blocks and section.brief],
        empty=[section for section in built if not section.blocks],
        charts=charts,
    )
