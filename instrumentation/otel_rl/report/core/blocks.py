"""Building blocks of a section of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.report.core import human

if TYPE_CHECKING:
    from otel_rl.report.core.cells import Table
    from otel_rl.report.core.charts import Charts, Drawing
    from otel_rl.report.core.lines import Line
    from otel_rl.report.core.messages import Conversation
    from otel_rl.report.core.timeline import Timeline

#: Points below which a line is not drawn: the tables say as much.
_FEWEST = 3


@dataclass(slots=True)
class PageBlock:
    """A piece of a section: a table, charts (side by side when several), text lines, preformatted text, conversations.

    ``anchor`` is the id that links lead to, of one that is folded.
    """

    title: str = ""
    note: str = ""
    table: Table | None = None
    charts: list[Drawing] = field(default_factory=list)
    text: str = ""
    conversations: list[Conversation] = field(default_factory=list)
    folded: bool = False
    anchor: str = ""


@dataclass(slots=True)
class Section:
    """``blocks`` is empty where the run has no such data; ``filler`` then says what would bring it.

    ``brief`` says in a line what a reader needs of it where no finding leads to it: it is folded then. It stays empty
    where the section has to be seen.
    """

    key: str
    title: str
    filler: str
    lead: str = ""
    brief: str = ""
    blocks: list[PageBlock] = field(default_factory=list)


def line_chart(charts: Charts, key: str, title: str, hint: str, lines: dict[str, Line], unit: str) -> Drawing | None:
    """Draw lines over the steps; None where no line has three points."""
    drawn = {name: line for name, line in lines.items() if len(line.x) >= _FEWEST}
    return charts.over_time(key, title, hint, drawn, unit) if drawn else None


def some_charts(*drawings: Drawing | None) -> list[PageBlock]:
    """Return one block with the charts that there are."""
    drawn = [drawing for drawing in drawings if drawing is not None]
    return [PageBlock(charts=drawn)] if drawn else []


def timeline_block(prefix: str, timeline: Timeline, charts: Charts) -> PageBlock:
    """Draw the spans of one trace."""
    hint = f"{human.amount(timeline.left_out, 'more span')} not drawn" if timeline.left_out else ""
    return PageBlock(charts=[charts.timeline(prefix + timeline.title, hint, timeline)])
