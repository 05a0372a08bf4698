"""The page of a run, and what has changed on it since a browser got it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bokeh.resources import Resources

from otel_rl.report.core import output
from otel_rl.report.page import page

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Overview


def first_page(collected: Collected, overview: Overview) -> bytes:
    """Return the page and its state as JSON: ``{"html": ..., "state": {block key: hash}}``."""
    return json.dumps({"html": _html(collected, overview), "state": _state(overview)}).encode()


def changes(_collected: Collected, overview: Overview, state: dict[str, Any]) -> bytes:
    """Return what is no longer as in ``state``, with the new state."""
    now = _state(overview)
    changed = {"findings": output.as_json(overview), "extent": overview.extent} if now != state else {}
    return json.dumps({**changed, "state": now}).encode()


def bokeh_js() -> bytes:
    """Return the library that the page needs, a file of the installed Bokeh."""
    return "\n".join(Resources("inline", components=["bokeh"]).js_raw).encode()


def _state(overview: Overview) -> dict[str, Any]:
    return {"findings": [finding.text for finding in overview.findings], "extent": overview.extent}


def _html(collected: Collected, overview: Overview) -> str:
    """Return the page of the report, which may ask for events."""
    return page.render(collected, overview).replace("font-src data:;", "font-src data:; connect-src 'self';", 1)
