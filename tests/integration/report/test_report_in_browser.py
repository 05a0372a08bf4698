"""The page as a browser shows it: charts are drawn, the console stays silent, nothing is loaded, no markup runs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from integration.report.browser import EXECUTABLE, Browser
from unit.report.synthetic_run import SECOND, GrpoRun, process, write_agent_run
from unit.report.test_report_page import EVIL, evil_run

from otel_rl.report import write_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium on PATH (Debian: apt-get install chromium)")

__all__ = ["evil_run"]

# Charts live in shadow roots: pixels that are neither transparent nor grey are something that was drawn.
COLOURED_PIXELS = """
(() => {
  const canvases = (root) => [...root.querySelectorAll("*")].flatMap((one) =>
    [...(one.tagName === "CANVAS" ? [one] : []), ...(one.shadowRoot ? canvases(one.shadowRoot) : [])]);
  const coloured = (canvas) => {
    if (!canvas.width || !canvas.height) return 0;
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let i = 0; i < data.length; i += 4)
    {
      const [red, green, blue, opacity] = data.subarray(i, i + 4);
      if (opacity > 40 && Math.max(red, green, blue) - Math.min(red, green, blue) > 40) count++;
    }
    return count;
  };
  return [...document.querySelectorAll("figure")].filter((one) => !one.closest("details:not([open])")).map((one) =>
    [one.querySelector("b").textContent, canvases(one).reduce((sum, canvas) => sum + coloured(canvas), 0)]);
})()
"""


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def training_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(GrpoRun(tmp_path_factory.mktemp("training")).write(), None).output


@pytest.fixture(scope="module")
def agent_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(write_agent_run(tmp_path_factory.mktemp("agent")), None).output


def _open(browser: Browser, page: Path) -> dict[str, int]:
    """Show the page; coloured pixels by the title of the chart."""
    browser.open(page)
    # A canvas off screen may not have been painted yet.
    browser.wait_for(f"({COLOURED_PIXELS}).every(([, count]) => count > 100)")
    return dict(browser.evaluate(COLOURED_PIXELS))


def test_every_chart_of_a_training_run_is_drawn(training_page: Path, browser: Browser) -> None:
    drawn = _open(browser, training_page)
    curves = {
        "Reward",
        "KL divergence",
        "Entropy",
        "Completion length (tokens)",
        "Loss",
        "Gradient norm",
        "Learning rate",
    }
    assert curves | {"Step time by phase", "Slowest step: 13", "Own work per step"} <= set(drawn)
    assert drawn["Step time by phase"] > 20_000
    assert browser.problems == []
    assert {address.partition(":")[0] for address in browser.requested} <= {"file", "data"}


def test_charts_in_a_fold_are_drawn_when_it_opens(training_page: Path, browser: Browser) -> None:
    before = _open(browser, training_page)
    browser.evaluate("document.querySelectorAll('#training details').forEach(fold => { fold.open = true })")
    browser.wait_for(f"({COLOURED_PIXELS}).every(([, count]) => count > 100)")
    assert set(dict(browser.evaluate(COLOURED_PIXELS))) - set(before) == {"epoch", "reward_std"}
    assert browser.problems == []


def test_charts_of_an_agent_run_are_drawn_in_the_dark_too(agent_page: Path, browser: Browser) -> None:
    browser.dark()
    drawn = _open(browser, agent_page)
    assert "Scores in the order in which they came" in drawn
    assert sum(title.startswith("Slowest rollouts: rollout-") for title in drawn) == 3
    colour = (
        "[...Bokeh.documents[0]._all_models.values()].find((one) => one.type === 'LinearAxis').major_label_text_color"
    )
    page = "getComputedStyle(document.documentElement).getPropertyValue('--quiet').trim()"
    assert browser.evaluate(f"[{page}, '#9aa4b2']") == ["#9aa4b2", "#9aa4b2"]
    assert browser.evaluate(f"JSON.stringify({colour})").find("#9aa4b2") >= 0
    assert browser.problems == []


def test_markup_in_the_data_neither_runs_nor_becomes_elements(browser: Browser, evil_run: Path) -> None:
    _open(browser, write_report(evil_run, None).output)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    browser.wait_for(f"({COLOURED_PIXELS}).every(([, count]) => count > 100)")
    assert {EVIL, f"Slowest rollouts: {EVIL}"} <= set(dict(browser.evaluate(COLOURED_PIXELS)))
    for title in (EVIL, f"Slowest rollouts: {EVIL}", "Reward per function", "Step time by phase"):
        _hover(browser, title)
    everything = (
        "(function walk(root) { return [...root.querySelectorAll('*')].flatMap((one) => "
        "[one.tagName, ...(one.shadowRoot ? walk(one.shadowRoot) : [])]); })(document)"
    )
    assert "IMG" not in browser.evaluate(everything)
    assert browser.evaluate("window.hacked") is None
    assert browser.problems == []


def _hover(browser: Browser, title: str) -> None:
    """Move the mouse over the middle of a chart until its tooltip is there."""
    figure = (
        "[...document.querySelectorAll('figure')]"
        f".find((one) => one.querySelector('b').textContent === {json.dumps(title)})"
    )
    browser.evaluate(f"{figure}.scrollIntoView({{ block: 'center', behavior: 'instant' }})")
    box = browser.evaluate(f"(({{ x, y, width, height }}) => [x, y, width, height])({figure}.getBoundingClientRect())")
    tooltip = (
        "(function find(root) { return [...root.querySelectorAll('*')].some((one) => "
        "one.classList.contains('bk-Tooltip') || (one.shadowRoot && find(one.shadowRoot))); })(document)"
    )
    for share in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + box[2] * share, y=box[1] + box[3] * 0.5)
        if browser.evaluate(tooltip):
            return
    raise AssertionError(f"no tooltip over {title}")


def test_a_click_on_a_title_sorts_by_value_and_folded_rows_unfold(agent_page: Path, browser: Browser) -> None:
    _open(browser, agent_page)
    shown = "[...document.querySelectorAll('#tools table')[1].tBodies[0].rows].filter((one) => one.offsetParent)"
    took = f"{shown}.map((one) => Number(one.cells[1].dataset.sort))"
    browser.evaluate("document.querySelectorAll('#tools table')[1].querySelectorAll('th button')[1].click()")
    assert browser.evaluate(took) == sorted(browser.evaluate(took), reverse=True)
    browser.evaluate("document.querySelectorAll('#tools table')[1].querySelectorAll('th button')[1].click()")
    assert browser.evaluate(took) == sorted(browser.evaluate(took))
    assert browser.evaluate(f"{shown}.length") == 5
    browser.evaluate("document.querySelector('#tools .unfold').click()")
    assert browser.evaluate(f"{shown}.length") == 12


def test_what_scrolls_can_be_reached_by_keyboard_and_shows_that_it_scrolls(training_page: Path) -> None:
    with Browser(width=800) as narrow:
        _open(narrow, training_page)
        unreachable = "[...document.querySelectorAll('pre, .scroll')].filter((one) => one.tabIndex !== 0).length"
        assert narrow.evaluate(unreachable) == 0
        nav = "document.querySelector('nav')"
        assert narrow.evaluate(f"{nav}.scrollWidth > {nav}.clientWidth")
        assert narrow.evaluate(f"getComputedStyle({nav}).scrollbarWidth") == "thin"
        assert narrow.evaluate("document.documentElement.scrollWidth") <= 800


def test_the_navigation_of_a_wide_page_shows_all_sections_without_scrolling(training_page: Path) -> None:
    with Browser(width=1280) as wide:
        _open(wide, training_page)
        nav = "document.querySelector('nav')"
        # As many sections as a run of everything has.
        assert wide.evaluate(f"({nav}.innerHTML += {nav}.innerHTML, {nav}.children.length)") >= 16
        assert wide.evaluate(f"{nav}.scrollWidth <= {nav}.clientWidth && {nav}.scrollHeight <= {nav}.clientHeight")


def test_a_link_to_something_folded_opens_it(agent_page: Path, browser: Browser) -> None:
    _open(browser, agent_page)
    assert browser.evaluate("document.getElementById('processes').open") is False
    browser.evaluate("document.querySelector('nav a[href=\"#processes\"]').click()")
    browser.wait_for("document.getElementById('processes').open")
    colours = "[getComputedStyle(document.querySelector('main a')).color, getComputedStyle(document.body).color]"
    assert "rgb(0, 0, 238)" not in browser.evaluate(colours)


def test_trajectories_can_be_filtered_by_every_column_and_lead_to_their_spans(browser: Browser, tmp_path: Path) -> None:
    run = tmp_path / "run-1"
    writer = process(run, 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    rollout = writer.span("rl.rollout", 1.0, 3.0, {"rl.rollout.id": "r-0"})
    writer.span("execute_tool search", 1.5, 2.0, {"gen_ai.operation.name": "execute_tool"}, rollout)
    trace = f"{rollout.trace_id:032x}"
    for step in (1, 2):
        body = {
            "rl.rollout.id": [f"{step}-{place}" for place in range(30)],
            "rl.sample.id": [f"task-{place % 3}" for place in range(30)],
            "rl.rollout.reward": [place / 10 for place in range(30)],
            "rl.rollout.status": ["failed" if place == 4 else "finished" for place in range(30)],
            "rl.rollout.trace_id": [trace if step == 1 and place == 4 else None for place in range(30)],
        }
        values = {"rl.trajectories.source": "rollout", "rl.trajectories.started": 30, "rl.loop.iteration": step}
        writer.event("rl.trajectories", 5.0 + step, body, values)
    writer.write()
    browser.open(write_report(run, None).output)

    def rows(**filters: str) -> int:
        wanted = json.dumps({name.capitalize(): text for name, text in filters.items()})
        return browser.evaluate(
            f"""(() => {{
              const wanted = {wanted};
              for (const field of document.querySelectorAll(".filters input")) {{
                field.value = wanted[field.ariaLabel.replace("Filter by ", "")] ?? "";
                field.dispatchEvent(new Event("input"));
              }}
              const rows = [...document.querySelectorAll("table.filtered tbody tr")];
              return rows.filter((row) => row.checkVisibility()).length;
            }})()"""
        )

    assert rows() == 20
    assert rows(step="2") == 30
    assert rows(status="fail") == 2
    assert rows(step="1", reward=">2.0") == 9
    assert rows(reward="0.5..0.75") == 6
    assert rows(sample="task-1", trajectory="1-") == 10
    assert rows(trajectory="nothing") == 0
    browser.evaluate(f"document.querySelector('a[href=\"#spans-{trace}\"]').click()")
    browser.wait_for(f"document.getElementById('spans-{trace}').open")
