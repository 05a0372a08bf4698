"""The page of a run that is being written, and what has changed on it since a browser got it.

The page is that of the report, rendered once; afterwards only what has changed is sent. It asks for two addresses
beside its own: ``bokeh.js`` (:func:`bokeh_js`), and ``events``, an event stream (``text/event-stream``) whose messages
are JSON objects with any of these keys:

``blocks``
    ``{key: html}``: new HTML of blocks. A block is one element with ``data-block="key"``; blocks that it contains are
    empty elements with their keys, and stay as they are in the browser.
``charts``
    ``{key: {"plot": {...}, "sources": [{"from": n, "columns": {...}}], "x_range": ..., "y_range": ...}}``: values of a
    chart from the n-th on; ``plot`` is its structure (:meth:`.Plot.structure`), left out where it is the same
    as before.
``steps``
    ``[first, last]``: the range that all charts over steps share.
``status``
    ``{"state": "running", "processes": [{"label": "rank 0", "rank": 0, "state": "running", "step": 8, "silent": 1.5}],
    "findings": [{"severity": "critical", "text": "...", "evidence": [...]}]}``: what the processes do now; ``silent``
    are seconds since the last sign, ``step``, ``silent`` and ``findings`` may be missing.
``progress``
    ``{"read": bytes, "left": bytes, "shows_all": bool}``: ``left`` is 0 once all that was written has been read;
    ``shows_all`` is False while a page has the last steps only.

An event named ``reload`` makes the browser load the page again. Everything may be sent twice: a browser that comes back
after a while gets what has changed against an empty state.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

from bokeh.resources import Resources

from otel_rl.live import page_state, recorded
from otel_rl.live.page_state import PageState, encoded
from otel_rl.report.core.charts import Charts
from otel_rl.report.core.summary import summarise
from otel_rl.report.page import markup, page_head, sections
from otel_rl.report.page.contents import contents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Overview
    from otel_rl.report.page.contents import PageContents

_PAGE = markup.environment().get_template("live.html.j2")
#: Sections whose charts grow with every step and cost little.
_GROWING = ("steps", "training")
#: Charts of values that no panel shows: a browser makes only those that somebody opens.
_MOST_OF_REST = 400


def first_page(collected: Collected, overview: Overview) -> bytes:
    """Return the page, its state and its status as JSON: ``{"html": ..., "state": {key: hash}, "status": ...}``."""
    page = contents(collected, overview, _MOST_OF_REST)
    now = PageState(page)
    status = _status(collected, page)
    message = {"charts": now.changed_charts({}), "steps": page.charts.steps, "status": status}
    html = _PAGE.render(
        page=page,
        header=now.filled("header"),
        links=now.filled("links"),
        main=now.filled("main"),
        footer=now.filled("footer"),
        message=markup.in_script(encoded(message)),
        nonce=secrets.token_urlsafe(16),
    )
    return json.dumps({"html": html, "state": now.hashes(), "status": status}).encode()


def changes(collected: Collected, overview: Overview, state: Mapping[str, str]) -> bytes:
    """Return a message with what is no longer as in ``state``, and with the new ``state``, as JSON."""
    page = contents(collected, overview, _MOST_OF_REST)
    now = PageState(page)
    message: dict[str, Any] = {"status": _status(collected, page), "state": now.hashes()}
    if blocks := now.changed_blocks(state):
        message["blocks"] = blocks
    if charts := now.changed_charts(state):
        message["charts"] = charts
        message["steps"] = page.charts.steps
    return encoded(message).encode()


def growth(collected: Collected, state: Mapping[str, str], marks: Mapping[str, Sequence[int]]) -> bytes:
    """Return what has grown with the steps as :func:`changes` does: values of known charts, and the key figures.

    It needs neither rings nor traces nor findings, but the ``marks`` of those that were found before. Everything else
    comes with the next :func:`changes`.
    """
    charts = Charts(marks, _MOST_OF_REST)
    built = sections.build_of(collected, charts, _GROWING)
    message: dict[str, Any] = {"state": dict(state)}
    if grown := page_state.grown_charts(built, state):
        message["charts"] = {key: change for key, (change, _) in grown.items()}
        message["state"] |= {page_state.CHART + key: now for key, (_, now) in grown.items()}
        message["steps"] = charts.steps
    tiles = page_head.tiles(collected, summarise(collected))
    key, html, now = page_state.tiles_block(tiles)
    if state.get(key) != now:
        message["blocks"], message["state"][key] = {key: html}, now
    return encoded(message).encode()


def bokeh_js() -> bytes:
    """Return the library that the page needs, a file of the installed Bokeh."""
    return "\n".join(Resources("inline", components=["bokeh"]).js_raw).encode()


def _status(collected: Collected, page: PageContents) -> dict[str, Any]:
    """Return what the processes have recorded of themselves."""
    return {**recorded.standing(collected).as_json(), "step": _last_step(collected, page)}


def _last_step(collected: Collected, page: PageContents) -> int | None:
    last = collected.steps.last_iteration
    # The range of the charts ends behind the last point, which may stand for several steps.
    return last if last is not None or page.charts.steps is None else int(page.charts.steps[1])
