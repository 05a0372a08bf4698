"""Of the page of a run that is being written only what has changed is sent, and text of the run stays text."""

from __future__ import annotations

import dataclasses
import functools
import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("bokeh", reason="the extra `report` is not installed")

from unit.live.growing import GrowingRun
from unit.live.runs_in_part import STARTED, changes, collected, first_page, log_steps
from unit.report.synthetic_run import GrpoRun, process
from unit.report.test_report_page import EVIL, evil_run

from otel_rl.live import updates
from otel_rl.live.follower import Follower
from otel_rl.live.page_state import PageState, hash_of_block
from otel_rl.report.core.blocks import PageBlock
from otel_rl.report.core.cells import Table, Value
from otel_rl.report.core.messages import Conversation, Message
from otel_rl.report.page.contents import contents
from otel_rl.report.subjects import overview

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unit.report.synthetic_run import ProcessWriter

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Overview


__all__ = ["evil_run"]


def _logging(run: Path) -> ProcessWriter:
    return process(run, 0, world_size=1, started=STARTED)


def test_of_a_run_in_which_nothing_happened_nothing_but_the_status_is_sent(tmp_path: Path) -> None:
    whole = collected(GrpoRun(tmp_path / "data").write())
    first = first_page(whole)
    message = changes(whole, first["state"])
    assert set(message) == {"status", "state"}
    assert message["state"] == first["state"]


def test_of_a_curve_that_has_grown_only_the_last_values_are_sent(tmp_path: Path) -> None:
    writer = _logging(tmp_path / "run")
    log_steps(writer, 40)
    writer.write()
    state = first_page(collected(tmp_path / "run", 39))["state"]
    message = changes(collected(tmp_path / "run"), state)
    [chart] = message["charts"].values()
    assert "plot" not in chart
    [source] = chart["sources"]
    assert source["from"] == 32
    assert source["columns"]["x"] == [33.0, 34.0, 35.0, 36.0, 37.0, 38.0, 39.0, 40.0]
    assert message["steps"] == [0.5, 40.5]


def test_a_new_key_is_one_new_chart(tmp_path: Path) -> None:
    writer = _logging(tmp_path / "run")
    log_steps(writer, 12, "reward")
    writer.write()
    state = first_page(collected(tmp_path / "run", 5))["state"]
    message = changes(collected(tmp_path / "run"), state)
    new = [chart for chart in message["charts"].values() if "plot" in chart]
    assert [chart["plot"]["hovers"][0]["tooltips"][0] for chart in new] == [["reward", "@shown"]]
    assert all(source["from"] == 0 for chart in new for source in chart["sources"])


def test_a_table_that_has_changed_is_sent_without_what_is_around_it(tmp_path: Path) -> None:
    writer = _logging(tmp_path / "run")
    log_steps(writer, 6)
    for moment in range(10, 14):
        writer.span("execute_tool search", moment, moment + 0.5, {"gen_ai.operation.name": "execute_tool"})
    writer.write()
    state = first_page(collected(tmp_path / "run", 13))["state"]
    message = changes(collected(tmp_path / "run"), state)
    changed = message["blocks"]
    assert any("<table" in html for html in changed.values())
    # Neither the order of the sections, nor their titles, nor what a training has logged.
    assert not {"main", "links", "section-tools", "section-training", "footer"} & set(changed)
    assert not [key for key in changed if key.startswith("training-")]
    assert {key.partition("-")[0] for key in message["charts"]} == {"tools"}


def test_a_page_of_nothing_becomes_that_of_the_whole_run_by_itschanges(tmp_path: Path) -> None:
    recorded = GrpoRun(tmp_path / "recorded").write()
    growing = GrowingRun(recorded, tmp_path / "growing")
    state: dict[str, str] = {}
    follower = None
    for _ in growing.pieces(4):
        follower = follower or Follower(growing.folder)
        while follower.poll(10).left:
            pass
        message = json.loads(follower.render(functools.partial(updates.changes, state=dict(state))).content)
        state = message["state"]
        for key in message.get("blocks", {}):
            assert key in state
    assert follower is not None
    whole = first_page(collected(recorded))["state"]
    assert set(state) == set(whole)


def test_what_a_browser_lost_is_sent_again(tmp_path: Path) -> None:
    whole = collected(GrpoRun(tmp_path / "data").write())
    first = first_page(whole)
    message = changes(whole, {})
    assert message["state"] == first["state"]
    assert set(message["blocks"]) | {f"chart-{key}" for key in message["charts"]} == set(first["state"])
    assert all("plot" in chart for chart in message["charts"].values())


class _Elements(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_text_of_a_run_is_no_markup_in_any_block(evil_run: Path) -> None:
    whole = collected(evil_run)
    message = changes(whole, {})
    for html in message["blocks"].values():
        for tag, attributes in _Elements(html).found:
            assert tag not in ("script", "img", "iframe", "style")
            assert not any(name.startswith("on") for name in attributes)
    page = first_page(whole)["html"]
    scripts = [attributes for tag, attributes in _Elements(page).found if tag == "script"]
    assert [attributes.get("type") for attributes in scripts] == ["application/json", None, None]
    assert EVIL not in page


def test_the_page_loads_its_own_scripts_only(tmp_path: Path) -> None:
    page = first_page(collected(GrpoRun(tmp_path / "data").write()))["html"]
    nonce = page.partition("script-src 'nonce-")[2].partition("'")[0]
    assert len(nonce) >= 16
    assert "connect-src 'self'" in page
    loaded = [attributes for tag, attributes in _Elements(page).found if tag == "script" and "type" not in attributes]
    assert [attributes["nonce"] for attributes in loaded] == [nonce, nonce]
    assert [attributes["src"] for attributes in loaded if "src" in attributes] == ["bokeh.js"]


def test_a_run_without_a_step_has_a_page(tmp_path: Path) -> None:
    _logging(tmp_path / "run").write()
    first = first_page(collected(tmp_path / "run"))
    assert "otel-rl live" in first["html"]
    assert changes(collected(tmp_path / "run"), first["state"])["status"]["step"] is None


def test_no_chart_is_drawn_for_an_update(tmp_path: Path) -> None:
    whole = collected(GrpoRun(tmp_path / "data").write())
    page = contents(whole, overview.examine(whole))
    PageState(page).changed_charts({})
    sections = (*page.sections, *page.folded)
    drawings = [drawing for section in sections for block in section.blocks for drawing in block.charts]
    assert len(drawings) > 15
    assert not [drawing.title for drawing in drawings if "model" in vars(drawing)]


def _block() -> PageBlock:
    table = Table(["Name", ">Number"], [[Value("a", 1.0, "bad", "#fff", "there"), Value("1 s", 1.0, seconds=True)]])
    said = Conversation("title", "anchor", (Message("user", "text"),))
    return PageBlock("title", "note", table, [], "text", [said], folded=False, anchor="")


def _other(value: object) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return [*value, *value] if isinstance(value, (list, tuple)) else f"{value}x"


def _parts(block: PageBlock) -> list[object]:
    assert block.table is not None
    return [block, block.table, block.table.rows[0][0], block.conversations[0], block.conversations[0].messages[0]]


@pytest.mark.parametrize("place", range(5))
def test_whatever_changes_in_a_block_it_is_sent(place: int) -> None:
    part = _parts(_block())[place]
    for field in dataclasses.fields(part):  # type: ignore[arg-type]
        if field.name in ("table", "charts"):
            continue
        block = _block()
        changed = _parts(block)[place]
        object.__setattr__(changed, field.name, _other(getattr(changed, field.name)))
        assert hash_of_block(block) != hash_of_block(_block()), f"{type(changed).__name__}.{field.name}"


def test_what_is_made_soon_is_what_all_of_the_page_shows_of_steps_curves_and_key_figures(tmp_path: Path) -> None:
    recorded = GrpoRun(tmp_path / "data").write()
    state, marks = _state_and_marks(recorded)
    assert json.loads(_growth(recorded, state, marks)) == {"state": state}
    # As of a browser that has the charts, but none of their values.
    charts = {key: value.split() for key, value in state.items() if key.startswith("chart-")}
    empty = {key: " ".join((structure, *["0:0:0"] * len(rest))) for key, (structure, *rest) in charts.items()}
    message = json.loads(_growth(recorded, {**state, **empty, "tiles": ""}, marks))
    sent = [f"chart-{key}" for key in message["charts"]]
    assert len([key for key in sent if key.startswith("chart-training-")]) >= 10
    assert len([key for key in sent if key.startswith("chart-steps-")]) == 1
    assert set(message["blocks"]) == {"tiles"}
    assert [message["state"][key] for key in (*sent, "tiles")] == [state[key] for key in (*sent, "tiles")]


def test_what_is_made_soon_has_no_chart_that_a_browser_lacks_or_that_looks_otherwise(tmp_path: Path) -> None:
    recorded = GrpoRun(tmp_path / "data").write()
    state, marks = _state_and_marks(recorded)
    assert "charts" not in json.loads(_growth(recorded, {}, marks))
    marked = {"phase-seconds": [2, 3, 4]}
    assert marked != marks
    assert "charts" not in json.loads(_growth(recorded, state, marked))


def test_of_a_curve_that_has_grown_the_last_values_are_sent_soon(tmp_path: Path) -> None:
    writer = _logging(tmp_path / "run")
    log_steps(writer, 40)
    writer.write()
    state = first_page(collected(tmp_path / "run", 39))["state"]
    message = json.loads(_growth(tmp_path / "run", state, {}))
    [chart] = message["charts"].values()
    assert chart["sources"][0]["columns"]["x"] == [33.0, 34.0, 35.0, 36.0, 37.0, 38.0, 39.0, 40.0]
    assert message["steps"] == [0.5, 40.5]
    assert "charts" not in changes(collected(tmp_path / "run"), message["state"])


def _growth(run: Path, state: Mapping[str, str], marks: Mapping[str, list[int]]) -> bytes:
    follower = _read(run)
    return follower.grow(functools.partial(updates.growth, state=state, marks=marks)).content


def _state_and_marks(run: Path) -> tuple[dict[str, str], dict[str, list[int]]]:
    def build(of: Collected, found: Overview) -> bytes:
        return json.dumps([json.loads(updates.first_page(of, found))["state"], found.marks()]).encode()

    state, marks = json.loads(_read(run).render(build).content)
    return state, marks


def _read(run: Path) -> Follower:
    follower = Follower(run)
    while follower.poll(10).left:
        pass
    return follower
