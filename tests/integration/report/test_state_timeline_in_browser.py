"""The state timeline as a reader uses it: zoom, one step, a choice of lanes; nothing is loaded and no markup runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from integration.report.browser import EXECUTABLE, Browser
from unit.report.made_up_jobs import STARTED, Job, rollout
from unit.report.synthetic_run import process
from unit.report.test_report_page import EVIL

from otel_rl.report import write_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium on PATH (Debian: apt-get install chromium)")

DRAWN = "document.documentElement.dataset.states === 'drawn'"
MODELS = "[...Bokeh.documents[0]._all_models.values()]"
MODEL = f"(name) => {MODELS}.find((one) => one.renderers?.some?.((other) => other.name === name))"
SOURCE = f"(name) => {MODELS}.find((one) => one.name === name && one.data_source).data_source.data"


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


class Timeline:
    """The section on the page of a run."""

    def __init__(self, browser: Browser, page: Path) -> None:
        self._browser = browser
        browser.open(page)
        browser.wait_for(DRAWN)

    def columns(self, part: str, of: str = "ranks") -> dict[str, list[Any]]:
        return self._browser.evaluate(f"(({SOURCE})('states-{of}-{part}'))")

    def lanes(self) -> list[str]:
        """Names of the lanes, from the top."""
        axis = f"(({MODEL})('states-ranks-work')).left[0].major_label_overrides"
        return self._browser.evaluate(f"[...{axis}].sort((a, b) => b[0] - a[0]).map(([, name]) => name)")

    @property
    def shown(self) -> tuple[float, float]:
        """Begin and end of the axis, in s."""
        return tuple(
            self._browser.evaluate(f"(({{ start, end }}) => [start, end])(({MODEL})('states-ranks-work').x_range)")
        )

    @property
    def said(self) -> str:
        return self._browser.evaluate(
            "[...document.querySelectorAll('.lane-controls output')].map((one) => one.textContent).join(' ')"
        )

    def choose(self, label: str, value: str) -> None:
        """Choose what a reader sees as ``value`` in a control."""
        self._browser.evaluate(
            f"""(() => {{
              const labels = [...document.querySelectorAll(".lane-controls label")];
              const label = labels.find((one) => one.textContent.startsWith({json.dumps(label)}));
              const field = label.querySelector("select, input");
              if (field.tagName === "INPUT") field.value = {json.dumps(value)};
              else field.selectedIndex = [...field.options].findIndex((one) => one.textContent === {json.dumps(value)});
              field.dispatchEvent(new Event(field.tagName === "INPUT" ? "input" : "change"));
            }})()"""
        )
        self._settle()

    def press(self, title: str) -> None:
        self._browser.evaluate(f"document.querySelector('.lane-controls button[title={json.dumps(title)}]').click()")
        self._settle()

    def zoom(self, start: float, end: float) -> None:
        """Change the range as Bokeh's tools do."""
        self._browser.evaluate(f"(({MODEL})('states-ranks-work').x_range.setv({{ start: {start}, end: {end} }}), 0)")
        self._settle()

    def _settle(self) -> None:
        self._browser.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")


def _job(folder: Path, ranks: int, steps: int = 5) -> Path:
    """A job whose rank 5 samples longer than others and whose rank 7 trains longer."""

    def phases(_step: int, rank: int) -> dict[str, float]:
        return {"sample": 1.0 + (rank == 5), "train": 0.5 + 0.7 * (rank == 7)}

    return Job(folder / "run-1", phases, ranks=ranks, steps=steps, marks=True, fetching=lambda *_: 0.1).write()


@pytest.fixture(scope="module")
def job_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _page(_job(tmp_path_factory.mktemp("job"), 2))


@pytest.fixture(scope="module")
def agent_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _page(_agents(tmp_path_factory.mktemp("agents")))


def _page(run: Path) -> Path:
    return write_report(run, None).output


def _agents(folder: Path, name: str = "r") -> Path:
    run = folder / "run-1"
    writer = process(run, 0, started=STARTED)
    for step in (1, 2):
        parts = [("chat", 0.5, {"gen_ai.operation.name": "chat", "server.address": "model-server"})]
        parts += [("look up", 0.2, {"gen_ai.operation.name": "execute_tool"})]
        for number in range(step):
            rollout(writer, step, number, 2.0 * step, [*parts])
        writer.span("rl.sync", 2.0 * step + 1, 2.0 * step + 1.2, {"rl.phase": "sync", "rl.loop.iteration": step})
        writer.span("rl.rank.step", 2.0 * step, 2.0 * step + 1.5, {"rl.loop.iteration": step})
    writer.span("rl.rollout", 6, 7, {"rl.rollout.id": name})
    writer.write()
    return run


def test_waiting_is_drawn_with_a_hatch_and_work_in_colours(browser: Browser, job_page: Path) -> None:
    timeline = Timeline(browser, job_page)
    assert set(timeline.columns("work")["what"]) == {"sample", "train"}
    assert "waiting for data" in timeline.columns("waits")["what"]
    assert len(set(timeline.columns("work")["fill"])) == 2
    assert timeline.columns("work")["took"][0] != ""
    assert browser.problems == []
    assert {address.partition(":")[0] for address in browser.requested} <= {"file", "data"}


def test_one_step_fills_the_chart_and_the_whole_run_comes_back(browser: Browser, job_page: Path) -> None:
    timeline = Timeline(browser, job_page)
    whole = timeline.shown
    timeline.choose("Step", "3")
    start, end = timeline.shown
    assert (end - start) * 4 < whole[1] - whole[0]
    assert "3" in timeline.columns("work")["step"]
    assert all(start <= left and right <= end for left, right in zip(*_ends(timeline), strict=True))
    timeline.press("Show the whole run")
    assert timeline.shown == whole


def test_a_long_run_opens_on_its_last_steps(browser: Browser, tmp_path: Path) -> None:
    timeline = Timeline(browser, _page(_job(tmp_path, 2, steps=40)))
    start, end = timeline.shown
    timeline.press("Show the whole run")
    assert timeline.shown == (0, pytest.approx(end))
    assert (end - start) * 4 == pytest.approx(end, rel=0.02)


def _ends(timeline: Timeline) -> tuple[list[float], list[float]]:
    columns = timeline.columns("work")
    return columns["left"], columns["right"]


def test_buttons_and_the_tools_of_a_chart_zoom_and_pan_all_charts(browser: Browser, agent_page: Path) -> None:
    timeline = Timeline(browser, agent_page)
    start, end = timeline.shown
    timeline.press("Zoom in")
    low, high = timeline.shown
    assert high - low == pytest.approx((end - start) / 2, rel=0.01)
    timeline.press("Earlier")
    assert timeline.shown[0] < low
    timeline.zoom(1.0, 2.0)
    rollouts = browser.evaluate(f"(({{ start, end }}) => [start, end])(({MODEL})('states-rollouts-work').x_range)")
    assert rollouts == [1.0, 2.0]
    assert all(right > 1.0 and left < 2.0 for left, right in zip(*_ends(timeline), strict=True))


def test_neighbours_below_a_pixel_are_one_and_apart_when_zoomed(browser: Browser, tmp_path: Path) -> None:
    run = tmp_path / "run-1"
    writer = process(run, 0, started=STARTED)
    for place in range(400):
        name = ("forward", "backward")[place % 2]
        start = 1 + place / 4000
        writer.span(f"rl.{name}", start, start + 1 / 4000, {"rl.phase": name, "rl.loop.iteration": 1})
    writer.span("rl.rank.step", 0, 100, {"rl.loop.iteration": 1})
    writer.write()
    timeline = Timeline(browser, _page(run))
    merged = timeline.columns("work")
    assert len(merged["what"]) < 10
    mixed = [place for place, words in enumerate(merged["what"]) if "% of it, rest mixed" in words]
    assert mixed
    assert all(merged["strength"][place] < 0.8 for place in mixed)
    timeline.zoom(1.0, 1.02)
    apart = timeline.columns("work")
    assert {"forward", "backward"} == set(apart["what"])
    assert set(apart["strength"]) == {1}
    assert len(apart["what"]) == pytest.approx(80, abs=2)


def test_lanes_are_chosen_by_rank_node_and_every_so_many(browser: Browser, tmp_path: Path) -> None:
    timeline = Timeline(browser, _page(_job(tmp_path, 40, steps=4)))
    assert timeline.lanes() == [f"rank {rank}" for rank in range(32)]
    assert "32 of 40 lanes are drawn." in timeline.said
    timeline.choose("Lanes", "rank:2-4,39")
    assert timeline.lanes() == ["rank 2", "rank 3", "rank 4", "rank 39"]
    timeline.choose("Lanes", "every:10")
    assert timeline.lanes() == ["rank 0", "rank 10", "rank 20", "rank 30"]
    timeline.choose("Lanes", "node:0 rank:0-1")
    assert timeline.lanes() == ["rank 0", "rank 1"]
    timeline.choose("Lanes", "rank:x")
    assert "rank: takes numbers, such as rank:0-7,12" in timeline.said
    timeline.choose("Lanes", "node:9")
    assert "No lane fits." in timeline.said
    timeline.choose("Lanes", "")
    timeline.choose("Pick", "longest: sample")
    assert timeline.lanes()[0] == "rank 5"
    timeline.choose("Pick", "latest: most own work")
    assert timeline.lanes()[:2] == ["rank 5", "rank 7"]
    assert browser.problems == []


def test_a_step_has_its_rollouts_and_marks_of_weight_syncs(browser: Browser, agent_page: Path) -> None:
    timeline = Timeline(browser, agent_page)
    assert len(timeline.columns("syncs")["x"]) == 2
    timeline.choose("Step", "2")
    assert set(timeline.columns("work", "rollouts")["lane"]) == {"2-0", "2-1"}
    assert {"generate", "tool"} == set(timeline.columns("work", "rollouts")["what"])
    assert "2 in this step." in timeline.said
    assert timeline.columns("syncs") == timeline.columns("syncs", "rollouts")
    assert len(timeline.columns("syncs")["x"]) == 1


def test_names_of_the_run_are_text_in_the_chart_and_in_its_controls(browser: Browser, tmp_path: Path) -> None:
    timeline = Timeline(browser, _page(_agents(tmp_path, EVIL)))
    timeline.choose("Of the whole run", "the latest")
    assert EVIL[:40] in timeline.columns("waits", "rollouts")["lane"]
    everything = (
        "(function walk(root) { return [...root.querySelectorAll('*')].flatMap((one) => "
        "[one.tagName, ...(one.shadowRoot ? walk(one.shadowRoot) : [])]); })(document)"
    )
    assert "IMG" not in browser.evaluate(everything)
    assert browser.evaluate("window.hacked") is None
    assert browser.problems == []


def test_controls_have_names_and_nothing_is_wider_than_a_narrow_screen(job_page: Path) -> None:
    with Browser(width=400) as narrow:
        narrow.dark()
        Timeline(narrow, job_page)
        fields = "[...document.querySelectorAll('.lane-controls :is(select, input)')]"
        assert narrow.evaluate(f"{fields}.every((one) => one.labels.length === 1)")
        buttons = "[...document.querySelectorAll('.lane-controls button')]"
        assert narrow.evaluate(f"{buttons}.every((one) => one.ariaLabel)")
        assert narrow.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        waits = f"{MODELS}.find((one) => one.name === 'states-ranks-waits')"
        assert narrow.evaluate(f"{waits}.glyph.fill_color.value") == "#363e4a"
