"""Turns what was collected into one HTML file that needs nothing else: no network, no other file.

Text of the run reaches the page only through the template's escaping and through JSON in which ``<`` is escaped; a
content security policy with a nonce stops whatever would still try to run or to load something.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from bokeh.document import Document
from bokeh.embed import components
from bokeh.resources import Resources
from bokeh.themes import Theme
from markupsafe import Markup

from otel_rl.report.page import markup
from otel_rl.report.page.contents import contents

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Overview

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_TEXT, _GRID = "#5b6472", "#e3e6ea"
THEME = Theme(
    json={
        "attrs": {
            "Plot": {
                "background_fill_color": None,
                "border_fill_color": None,
                "outline_line_color": None,
                "min_border": 4,
            },
            "Axis": {
                "axis_line_color": _GRID,
                "major_tick_line_color": _GRID,
                "minor_tick_line_color": None,
                "major_label_text_color": _TEXT,
                "major_label_text_font": _FONT,
                "axis_label_text_color": _TEXT,
                "axis_label_text_font": _FONT,
                "axis_label_text_font_style": "normal",
                "axis_label_text_font_size": "11px",
            },
            "Grid": {"grid_line_color": _GRID},
        }
    }
)


def render(collected: Collected, overview: Overview) -> str:
    """Return the whole page as HTML."""
    page = contents(collected, overview)
    models: dict[str, Any] = {}
    for section in (*page.sections, *page.folded):
        for number, block in enumerate(section.blocks):
            for place, drawing in enumerate(block.charts):
                models[f"{section.key}-{number}-{place}"] = drawing.model
    _in_one_document(models)
    script, divs = components(models, wrap_script=False, theme=THEME) if models else ("", {})
    return (
        markup.environment()
        .get_template("report.html.j2")
        .render(
            page=page,
            divs={key: Markup(div) for key, div in divs.items()},  # noqa: S704 - Bokeh's own: ids only
            library=_library() if models else [],
            charts_script=markup.in_script(script),
            nonce=secrets.token_urlsafe(16),
        )
    )


def _in_one_document(models: dict[str, Any]) -> None:
    # Left to itself Bokeh walks through all charts again for each one that it adds.
    document = Document()
    with document.models.freeze():
        for model in models.values():
            document.add_root(model)


def _library() -> list[Markup]:
    sources = Resources("inline", components=["bokeh"]).js_raw
    return [Markup(source) for source in sources]  # noqa: S704 - files of the installed Bokeh
