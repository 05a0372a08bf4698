"""Turns what was collected into one HTML file that needs nothing else: no network, no other file.

Text of the run reaches the page only through the template's escaping and through JSON in which ``<`` is escaped; a
content security policy with a nonce stops whatever would still try to run or to load something.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any

from bokeh.document import Document
from bokeh.embed import components
from bokeh.resources import Resources
from bokeh.themes import Theme
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from otel_rl.core import __version__
from otel_rl.report.core import output
from otel_rl.report.core.cells import in_one_unit
from otel_rl.report.core.charts import Charts
from otel_rl.report.core.summary import summarise
from otel_rl.report.page import finding_list, page_head, sections, sparkline

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Overview

# What could end a script element early; in code this never occurs, in its strings the escape means the same.
_ENDS_SCRIPT = re.compile(r"<(?=!--|/?script)", re.IGNORECASE)
_CODE = re.compile(r"`([^`\n]+)`")
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_TEXT, _GRID = "#5b6472", "#e3e6ea"
_THEME = Theme(
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
    charts = Charts(overview.marks())
    built = sections.build(collected, charts, overview)
    models: dict[str, Any] = {}
    for section in built:
        for number, block in enumerate(section.blocks):
            for place, drawing in enumerate(block.charts):
                models[f"{section.key}-{number}-{place}"] = drawing.model
    _in_one_document(models)
    script, divs = components(models, wrap_script=False, theme=_THEME) if models else ("", {})
    head = summarise(collected)
    environment = Environment(
        loader=PackageLoader("otel_rl.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _with_code
    return environment.get_template("report.html.j2").render(
        head=head,
        facts=page_head.facts(collected, head),
        tiles=page_head.tiles(collected, head),
        sparkline=sparkline,
        in_one_unit=in_one_unit,
        findings=finding_list.entries(overview, built, charts.figures),
        verdict=output.verdict(overview) if output.is_in_order(overview) else "",
        checked=output.checked_without_finding(overview),
        not_checked=finding_list.folded(overview),
        own_share=page_head.own_share(collected),
        sections=[section for section in built if section.blocks and not section.brief],
        folded=[section for section in built if section.blocks and section.brief],
        empty=[section for section in built if not section.blocks],
        divs={key: Markup(div) for key, div in divs.items()},  # noqa: S704 - Bokeh's own: ids only
        library=_library() if models else [],
        charts_script=Markup(_ENDS_SCRIPT.sub(r"\\u003c", script)),  # noqa: S704 - Bokeh's own, data as JSON strings
        nonce=secrets.token_urlsafe(16),
        version=__version__,
    )


def _with_code(text: str) -> Markup:
    """Return the text as HTML, with what stands between backticks as code."""
    parts = _CODE.split(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts))


def _in_one_document(models: dict[str, Any]) -> None:
    # Left to itself Bokeh walks through all charts again for each one that it adds.
    document = Document()
    with document.models.freeze():
        for model in models.values():
            document.add_root(model)


def _library() -> list[Markup]:
    sources = Resources("inline", components=["bokeh"]).js_raw
    return [Markup(source) for source in sources]  # noqa: S704 - files of the installed Bokeh
