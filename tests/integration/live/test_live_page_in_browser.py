"""The page of a run that is being written changes in place: charts, tables and what a reader has done stay."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from bokeh.embed import json_item
from integration.live.page_server import PageServer
from integration.report.browser import EXECUTABLE, Browser
from unit.live.runs_in_part import STARTED, changes, collected, first_page, log_steps
from unit.report.synthetic_run import GrpoRun, process
from unit.report.test_report_page import EVIL

from otel_rl.live.standing import ProcessSign, ProcessState, Standing
from otel_rl.report.core.figures import Figures
from otel_rl.report.page.contents import contents
from otel_rl.report.page.page import THEME
from otel_rl.report.subjects import overview

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium on PATH (Debian: apt-get install chromium)")


_LOADED = "document.readyState === 'complete' && typeof plots !== 'undefined'"


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def training_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return first_page(collected(GrpoRun(tmp_path_factory.mktemp("training")).write()))["html"]


def _open(browser: Browser, server: PageServer) -> None:
    server.watching.clear()
    browser.call("Page.navigate", url=server.url)
    browser.wait_for(_LOADED)
    assert server.watching.wait(30)


def _send(browser: Browser, server: PageServer, message: dict[str, Any]) -> None:
    """Send a message, and wait until the page has taken it in and drawn what is in view."""
    browser.evaluate(
        "window.taken = 0; document.addEventListener('message-taken', () => { window.taken += 1; }, { once: true })"
    )
    server.send(message)
    browser.wait_for("window.taken === 1 && plots.areDrawn")


def _figure(title: str) -> str:
    wanted = json.dumps(title)
    return f"[...document.querySelectorAll('figure')].find((one) => one.querySelector('b').textContent === {wanted})"


def _chart(title: str) -> str:
    return f"plots.charts.get({_figure(title)}.querySelector('.plot').dataset.chart)"


def _show(browser: Browser, title: str) -> None:
    browser.evaluate(f"{_figure(title)}.scrollIntoView({{ behavior: 'instant', block: 'center' }})")
    browser.wait_for(f"{_chart(title)}.drawn && plots.areDrawn")


def test_a_curve_grows_in_place_and_its_range_follows(tmp_path: Path, browser: Browser) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=STARTED)
    log_steps(writer, 40)
    writer.write()
    first = first_page(collected(tmp_path / "run", 30))
    with PageServer(first["html"]) as server:
        _open(browser, server)
        _show(browser, "Loss")
        browser.evaluate(f"window.before = {_chart('Loss')}.drawn.model; 0")
        _send(browser, server, changes(collected(tmp_path / "run"), first["state"]))
        assert browser.evaluate(f"{_chart('Loss')}.drawn.model === window.before")
        assert browser.evaluate(f"{_chart('Loss')}.drawn.sources[0].data.x.length") == 40
        assert browser.evaluate("[plots.range.start, plots.range.end]") == [0.5, 40.5]
    assert browser.problems == []


def test_a_chart_that_was_zoomed_stays_zoomed(tmp_path: Path, browser: Browser) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=STARTED)
    log_steps(writer, 40)
    writer.write()
    first = first_page(collected(tmp_path / "run", 30))
    with PageServer(first["html"]) as server:
        _open(browser, server)
        _show(browser, "Loss")
        browser.evaluate("plots.range.setv({ start: 10, end: 20 })")
        _send(browser, server, changes(collected(tmp_path / "run"), first["state"]))
        assert browser.evaluate("[plots.range.start, plots.range.end]") == [10, 20]
        # Reset shows all that there is now.
        assert browser.evaluate("[plots.range.reset_start, plots.range.reset_end]") == [0.5, 40.5]


def test_a_chart_whose_structure_changes_is_drawn_anew_in_its_place(tmp_path: Path, browser: Browser) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=STARTED)
    log_steps(writer, 70)
    writer.write()
    # Beyond 60 values a curve has no markers.
    first = first_page(collected(tmp_path / "run", 50))
    with PageServer(first["html"]) as server:
        _open(browser, server)
        _show(browser, "Loss")
        glyphs = f"{_chart('Loss')}.drawn.model.renderers.map((one) => one.glyph.type)"
        assert browser.evaluate(glyphs) == ["Line", "Scatter"]
        browser.evaluate("plots.range.setv({ start: 10, end: 20 })")
        _send(browser, server, changes(collected(tmp_path / "run"), first["state"]))
        browser.wait_for(f"{glyphs}.length === 1")
        assert browser.evaluate(f"{_figure('Loss')}.querySelectorAll('.plot > div').length") == 1
        assert browser.evaluate("[plots.range.start, plots.range.end]") == [10, 20]
    assert browser.problems == []


def test_a_new_curve_appears_in_its_place_and_the_others_stay(tmp_path: Path, browser: Browser) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=STARTED)
    log_steps(writer, 12, "reward")
    writer.write()
    first = first_page(collected(tmp_path / "run", 3))
    with PageServer(first["html"]) as server:
        _open(browser, server)
        _show(browser, "Loss")
        browser.evaluate(f"window.before = {_chart('Loss')}.drawn.holder")
        _send(browser, server, changes(collected(tmp_path / "run"), first["state"]))
        titles = "[...document.querySelectorAll('#training figure b')].map((one) => one.textContent)"
        assert browser.evaluate(titles) == ["Reward", "Loss"]
        _show(browser, "Reward")
        assert browser.evaluate(f"{_chart('Loss')}.drawn.holder === window.before && window.before.isConnected")
        # Both are drawn on the range that they share.
        assert browser.evaluate(f"{_chart('Loss')}.drawn.model.x_range === {_chart('Reward')}.drawn.model.x_range")
    assert browser.problems == []


def test_what_a_reader_has_done_stays(tmp_path: Path, browser: Browser) -> None:
    run = GrpoRun(tmp_path / "data").write()
    whole = collected(run)
    first = first_page(whole)
    with PageServer(first["html"]) as server:
        _open(browser, server)
        browser.evaluate(
            """(() => {
              document.querySelector("#training details").open = true;
              const table = document.querySelector("#tools table");
              table.querySelectorAll("th button")[1].click();
              table.querySelectorAll("th button")[1].focus();
              document.querySelector("#tools .unfold")?.click();
              window.table = table;
              window.order = [...table.tBodies[0].rows].map((row) => row.textContent);
              window.scrollTo({ top: 900, behavior: "instant" });
            })()"""
        )
        at = browser.evaluate("window.scrollY")
        # All of it again, as after a lost connection.
        _send(browser, server, changes(whole, {}))
        assert browser.evaluate("document.querySelector('#training details').open")
        assert browser.evaluate("document.querySelector('#tools table') === window.table && window.table.isConnected")
        order = browser.evaluate("[...window.table.tBodies[0].rows].map((row) => row.textContent)")
        assert order == browser.evaluate("window.order")
        assert browser.evaluate("document.activeElement === window.table.querySelectorAll('th button')[1]")
        assert browser.evaluate("window.table.querySelectorAll('th')[1].getAttribute('aria-sort')") == "descending"
        assert browser.evaluate("window.scrollY") == at
    assert browser.problems == []


def test_a_filter_holds_for_rows_that_come_later(tmp_path: Path, browser: Browser) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=STARTED)
    for step in (1, 2):
        body = {
            "rl.rollout.id": [f"{step}-{place}" for place in range(4)],
            "rl.sample.id": ["task"] * 4,
            "rl.rollout.reward": [place / 10 for place in range(4)],
        }
        values = {"rl.trajectories.source": "rollout", "rl.trajectories.started": 4, "rl.loop.iteration": step}
        writer.event("rl.trajectories", 5.0 * step, body, values)
    writer.write()
    first = first_page(collected(tmp_path / "run", 7))
    with PageServer(first["html"]) as server:
        _open(browser, server)
        rows = "[...document.querySelectorAll('table.filtered tbody tr')].filter((row) => row.checkVisibility()).length"
        browser.evaluate(
            """(() => {
              const fields = [...document.querySelectorAll(".filters input")];
              const field = fields.find((one) => one.ariaLabel === "Filter by Reward");
              field.value = ">0.15";
              field.dispatchEvent(new Event("input"));
              field.focus();
            })()"""
        )
        assert browser.evaluate(rows) == 2
        _send(browser, server, changes(collected(tmp_path / "run"), first["state"]))
        assert browser.evaluate(rows) == 4
        assert browser.evaluate("document.activeElement.value") == ">0.15"


def test_sections_that_come_later_are_in_reading_order(tmp_path: Path, browser: Browser) -> None:
    run = GrpoRun(tmp_path / "data").write()
    writer = process(tmp_path / "begun", 0, world_size=1, started=STARTED)
    writer.write()
    first = first_page(collected(tmp_path / "begun"))
    whole = collected(run)
    with PageServer(first["html"]) as server:
        _open(browser, server)
        assert browser.evaluate("document.querySelector('#training')") is None
        _send(browser, server, changes(whole, first["state"]))
        ids = "[...document.querySelectorAll('main > section')].map((one) => one.id || one.className)"
        grown = browser.evaluate(ids)
        server.page = first_page(whole)["html"]
        _open(browser, server)
        assert grown == browser.evaluate(ids)
    assert browser.problems == []


def test_a_chart_in_a_fold_is_made_when_it_opens(training_page: str, browser: Browser) -> None:
    with PageServer(training_page) as server:
        _open(browser, server)
        assert browser.evaluate(f"{_chart('epoch')}.drawn") is None
        browser.evaluate("document.querySelectorAll('#training details').forEach((fold) => { fold.open = true })")
        _show(browser, "epoch")
        assert browser.evaluate(f"{_chart('epoch')}.drawn.holder.isConnected")


def test_a_lost_connection_is_said_and_taken_up_again(training_page: str, browser: Browser) -> None:
    state = "document.querySelector('.live').dataset.state"
    with PageServer(training_page) as server:
        _open(browser, server)
        before = browser.evaluate(state)
        assert before != "lost"
        browser.evaluate(
            """window.states = [];
            new MutationObserver(() => window.states.push(document.querySelector(".live").dataset.state))
              .observe(document.querySelector(".live"), { attributes: true, attributeFilter: ["data-state"] })"""
        )
        server.drop_browsers()
        assert server.watching.wait(30)
        browser.wait_for(f"window.states.length > 1 && {state} !== 'lost'")
        assert browser.evaluate("window.states") == ["lost", before]


@pytest.mark.parametrize("number", [2, 40])
def test_the_last_sign_of_each_process_is_counted_in_the_browser(
    training_page: str, browser: Browser, number: int
) -> None:
    processes = [
        {"label": f"rank {rank}", "rank": rank, "state": "running", "step": 7, "silent": 100.0 - rank}
        for rank in range(number)
    ]
    with PageServer(training_page) as server:
        _open(browser, server)
        _send(
            browser,
            server,
            {"status": {"state": "running", "step": 7, "processes": processes}, "progress": {"read": 40, "left": 60}},
        )
        line = "document.querySelector('.live .line').innerText"
        assert "running" in browser.evaluate(line)
        assert "step 7" in browser.evaluate(line)
        assert "reading the rest: 40 %" in browser.evaluate(line)
        signs = browser.evaluate("[...document.querySelectorAll('.signs li')].map((one) => one.textContent)")
        assert len(signs) == (2 if number == 2 else 9)
        assert any(sign.startswith("rank 0 1") for sign in signs)
        said = browser.evaluate("document.querySelector('.live .sign').textContent")
        browser.wait_for(f"document.querySelector('.live .sign').textContent !== {json.dumps(said)}")
        assert browser.evaluate("[...document.querySelectorAll('.live .bad')].length") == 0


def test_where_each_process_is_stands_at_its_sign(training_page: str, browser: Browser) -> None:
    signs = [
        ProcessSign("rank 0", 0, "node", 1, ProcessState.RUNNING, 1207, "train > optimizer", 1.0, 1.0),
        ProcessSign("rank 1", 1, "node", 2, ProcessState.RUNNING, silent=1.0),
        ProcessSign("rank 2", 2, "node", 3, ProcessState.ENDED, 7, cause="KeyError"),
    ]
    with PageServer(training_page) as server:
        _open(browser, server)
        _send(browser, server, {"status": Standing(signs).as_json()})
        titles = browser.evaluate("[...document.querySelectorAll('.signs li')].map((one) => one.title)")
        assert titles == ["step 1,207, train > optimizer", "", "KeyError"]


def test_the_page_says_whether_what_it_shows_is_of_the_last_steps_only(training_page: str, browser: Browser) -> None:
    said = "document.querySelector('.live .progress').textContent"
    with PageServer(training_page) as server:
        _open(browser, server)
        for shows_all, words in (
            (False, "only the last steps so far, counts and onsets may change"),
            (True, "reading: 40 %"),
        ):
            _send(browser, server, {"progress": {"read": 40, "left": 60, "shows_all": shows_all}})
            browser.wait_for(f"{said}.startsWith({json.dumps(words)})")
            for width in (1400, 400):
                browser.call(
                    "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
                )
                assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        _send(browser, server, {"progress": {"read": 100, "left": 0, "shows_all": True}})
        browser.wait_for(f"{said} === ''")


#: What runs, loads or breaks out where text is taken for markup, script, JSON, a template or a selector.
PAYLOADS = (
    EVIL,
    "<svg onload=window.hacked=1>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'>",
    '"><img src=x onerror=window.hacked=1>',
    "'-alert(1)-'",
    "</style><style>*{display:none}</style>",
    "<!--<script>",
    "]]><script>window.hacked=1</script>",
    "javascript:window.hacked=1",
    "{{ 7 * 7 }}${window.hacked=1}",
    '<div data-block="main"></div>',
    "<details open ontoggle=window.hacked=1>",
    "\u2028\u2029\u202e\x00",
    "@{x}{safe}<b onclick=window.hacked=1>",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.hacked=1>",
)


def _hostile(run: Path) -> Path:
    """Write a run whose every name and text is a payload, also of what is folded."""
    writer = process(run, 0, world_size=1, started=STARTED, **{"service.name": " ".join(PAYLOADS)})
    for step in range(1, 8):
        names = [name for payload in PAYLOADS for name in (payload, f"rewards/{payload}")]
        writer.event("rl.step", step, {name: float(step) for name in ("loss", *names)}, {"rl.loop.iteration": step})
    for place, payload in enumerate(PAYLOADS):
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": payload, "error.type": payload}
        rollout = writer.span("rl.rollout", place, place + 0.9, {"rl.rollout.id": payload})
        writer.span(f"execute_tool {payload}", place, place + 0.5, tool, rollout)
    writer.write()
    return run


def test_text_of_a_run_stays_text_in_the_page_and_in_its_changes(tmp_path: Path, browser: Browser) -> None:
    process(tmp_path / "begun", 0, world_size=1, started=STARTED).write()
    first = first_page(collected(tmp_path / "begun"))
    hostile = collected(_hostile(tmp_path / "run"))
    signs = [{"label": one, "rank": None, "state": "running", "silent": 1.0, "phase": one} for one in PAYLOADS]
    findings = [{"severity": "critical", "text": one, "evidence": [one]} for one in PAYLOADS]
    elements = "document.querySelectorAll('img, iframe, math, body script, body style, main').length"
    with PageServer(first["html"]) as server:
        _open(browser, server)
        before = browser.evaluate(elements)
        _send(browser, server, changes(hostile, first["state"]))
        _send(browser, server, {"status": {"state": EVIL, "processes": signs, "findings": findings}})
        _assert_inert(browser, elements, before)
        server.page = first_page(hostile)["html"]
        _open(browser, server)
        _assert_inert(browser, elements, before)
    assert browser.problems == []


def _assert_inert(browser: Browser, elements: str, before: int) -> None:
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    titles = browser.evaluate("[...document.querySelectorAll('figure b')].map((one) => one.textContent)")
    for payload in PAYLOADS[:3]:
        assert payload in titles
        _show(browser, payload)
    assert browser.evaluate(elements) == before
    assert browser.evaluate("window.hacked") is None


#: Differences of the models of a chart, as the report has them and as this page makes them: what is not drawn.
DIFFERENCES = """
((item, key) => {
  const theirs = Bokeh.require("document/document").Document.from_json(item.doc).roots()[0];
  const chart = plots.charts.get(key);
  const steps = new Bokeh.Models.Range1d(rangeOf(plots.steps ?? [0.5, 1.5], true));
  const crosshair = new Bokeh.Models.Span({ dimension: "height", line_color: "#8a8f98", line_alpha: 0.6 });
  const ours = figureOf(chart.plot, chart.data, chart.ranges, steps, crosshair).model;
  const seen = new Set(), found = [];
  const skipped = new Set(["id", "name", "selected", "syncable", "nonselection_glyph", "muted_glyph"]);
  const entries = (value) => value instanceof Map ? [...value] : Object.entries(value ?? {});
  const compare = (a, b, path) => {
    if (a?.properties && b?.properties) {
      if (a.type !== b.type) found.push(`${path}: ${a.type}, ${b.type}`);
      if (a.type !== b.type || seen.has(a)) return;
      seen.add(a);
      for (const { attr } of a) {
        if (skipped.has(attr)) continue;
        let values;
        try { values = [a[attr], b[attr]]; } catch { continue; }
        compare(...values, `${path}.${attr}`);
      }
    } else if (typeof a === "function" && typeof b === "function") {
      return;
    } else if (a && b && typeof a === "object" && typeof b === "object") {
      const [one, other] = [a, b].map((value) => new Map(entries(value).map(([name, part]) => [String(name), part])));
      for (const name of new Set([...one.keys(), ...other.keys()])) {
        compare(one.get(name), other.get(name), `${path}.${name}`);
      }
    } else if (!Object.is(a, b) && String(a) !== String(b)) {
      found.push(`${path}: ${a}, ${b}`);
    }
  };
  compare(theirs, ours, "");
  return found;
})
"""
#: Colours of what has no hatch or is transparent, and what Bokeh does on a reset where nothing says it.
_NOT_DRAWN = re.compile(
    r"\.hatch_(color|alpha)\.value|_range\.reset_(start|end): null|renderers\.0\.glyph\.(fill|line)_color"
)


def test_charts_are_as_those_of_the_report(tmp_path: Path, browser: Browser) -> None:
    run = GrpoRun(tmp_path / "data").write()
    whole = collected(run)
    page = contents(whole, overview.examine(whole))
    titles = set()
    with PageServer(first_page(whole)["html"]) as server:
        _open(browser, server)
        for section in (*page.sections, *page.folded):
            for drawing in (drawing for block in section.blocks for drawing in block.charts):
                figures = Figures()
                figures.show_steps(page.charts.steps)
                item = json_item(figures.model(drawing.plot), theme=THEME)
                key = browser.evaluate(f"{_figure(drawing.title)}.querySelector('.plot').dataset.chart")
                found = browser.evaluate(f"{DIFFERENCES}({json.dumps(item)}, {json.dumps(key)})")
                assert [one for one in found if not _NOT_DRAWN.search(one)] == []
                titles.add(drawing.title)
    assert len(titles) >= 15
