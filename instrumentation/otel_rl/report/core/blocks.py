"""Building blocks of a section of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_rl.report.core.cells import Table
    from otel_rl.report.core.charts import Drawing


@dataclass(slots=True)
class PageBlock:
    """A piece of a section: a table, charts (side by side when several), text lines, or preformatted text.

    ``anchor`` is the id that links lead to, of one that is folded.
    """

    title: str = ""
    note: str = ""
    table: Table | None = None
    charts: list[Drawing] = field(default_factory=list)
    text: str = ""
    folded: bool = False
    anchor: str = ""


@dataclass(slots=True)
class Section:
    """``blocks`` is empty where the run has no such data; ``filler`` then says what would bring it."""

    key: str
    title: str
    filler: str
    lead: str = ""
    blocks: list[PageBlock] = field(default_factory=list)
