"""A run that is followed while it is written: snapshots at any time, and at the end the page of the report."""

from __future__ import annotations

import json
import re
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("bokeh", reason="the extra `report` is not installed")

from bokeh.models import Spacer
from unit.live.growing import GrowingRun, split_into_small_lines
from unit.report.synthetic_run import GrpoRun, write_agent_run

from otel_rl.live import follower as follower_module
from otel_rl.live.follower import Follower, RenderingError
from otel_rl.report import subjects
from otel_rl.report.core import figures, levels, output
from otel_rl.report.core.collected import Collected
from otel_rl.report.page import page, page_head
from otel_rl.report.subjects import overview
from otel_rl.report.subjects.trajectories import totals
from otel_rl.store.reader import Reader, UnusableInput, find_run
from otel_rl.store.reader.errors import NoRoom

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.live.follower import Build
    from otel_rl.report.core.finding import Overview

_STARTED = 1_700_000_000 * 10**9
#: What differs between two renderings of the same: nonces, and Bokeh's ids.
_IDS = re.compile(r"nonce[-=\"\w]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\bp\d{4,}")
#: Sums of the same numbers in another order differ in the last digits.
_LONG_NUMBER = re.compile(r"\d+\.\d{9,}")
_LIBRARY = re.compile(r"<script[^>]*>/\*!.*?</script>", re.DOTALL)


def _everything(collected: Collected, found: Overview) -> bytes:
    """Return all that a report says."""
    return json.dumps(
        {
            "findings": output.as_json(found),
            "trajectories": totals.as_json(collected),
            "run": page_head.as_json(collected),
            "page": _comparable(page.render(collected, found)),
        },
        default=str,
    ).encode()


def _comparable(text: str) -> str:
    return _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.8g}", _IDS.sub("", _LIBRARY.sub("", text)))


def _report(run: Path) -> dict:
    collected = Collected(Reader(find_run(run)), subjects.load()).read(lambda _: None)
    return json.loads(_everything(collected, overview.examine(collected)))


def _steps(collected: Collected, _: Overview) -> bytes:
    return json.dumps([collected.steps.loops, collected.steps.last_iteration]).encode()


def _read_all(follower: Follower) -> None:
    while follower.poll(1).left:
        pass


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return split_into_small_lines(GrpoRun(tmp_path / "recorded", steps=14, started=_STARTED).write())


@pytest.mark.parametrize("write", [lambda folder: GrpoRun(folder, steps=14).write(), write_agent_run])
def test_a_run_that_was_followed_gives_the_page_of_its_report(write, tmp_path, monkeypatch):
    # What is drawn stands for the drawing, which takes ten times as long as all the rest.
    monkeypatch.setattr(figures.Figures, "model", lambda _, plot: Spacer(name=repr(plot)))
    recorded = split_into_small_lines(write(tmp_path / "recorded"))
    growing, follower = GrowingRun(recorded, tmp_path / "grown"), None
    for _ in growing.pieces(4):
        follower = follower or Follower(growing.folder)
        _read_all(follower)
        # A snapshot leaves no trace in what is read later.
        assert json.loads(follower.render(lambda _, found: json.dumps(output.as_json(found)).encode()).content)
    followed, report = json.loads(follower.render(_everything, anew=True).content), _report(recorded)
    assert followed.pop("page").splitlines() == report.pop("page").splitlines()
    assert followed == report


def test_of_a_large_run_the_last_steps_come_first(run, monkeypatch):
    monkeypatch.setattr(follower_module, "FIRST_VIEW", 40_000)
    follower = Follower(run)
    follower.poll(0)
    while not follower._recent.is_current:
        follower.poll(0)
    assert not follower.shows_all
    steps, last = json.loads(follower.render(_steps).content)
    assert 0 < steps < 14
    assert last == 14
    _read_all(follower)
    assert follower.shows_all
    assert json.loads(follower.render(_steps).content) == [14, 14]


def test_how_much_is_left_to_read_falls_to_zero(run):
    follower = Follower(run)
    seen = [follower.poll(0)]
    while seen[-1].left:
        seen.append(follower.poll(0))
    assert len(seen) > 1
    assert [one.left for one in seen] == sorted((one.left for one in seen), reverse=True)
    assert follower.poll(0) == seen[-1]


def test_what_was_looked_for_in_a_series_lately_is_kept_from_one_page_to_the_next(run, monkeypatch):
    def looks(collected: Collected, _: Overview) -> bytes:
        return str(len(collected.earlier_looks._looks)).encode()

    follower = Follower(run)
    _read_all(follower)
    assert int(follower.render(looks).content) > 0
    monkeypatch.setattr(levels, "rise", None)  # looking again would fail
    assert int(follower.render(looks).content) > 0
    with pytest.raises(RenderingError):
        follower.render(looks, anew=True)


def test_a_page_that_cannot_be_made_says_why_and_the_next_one_is_made(run):
    def broken(_collected: Collected, _found: Overview) -> bytes:
        raise ZeroDivisionError("of this test")

    follower = Follower(run)
    _read_all(follower)
    with pytest.raises(RenderingError, match="ZeroDivisionError: of this test"):
        follower.render(broken)
    assert json.loads(follower.render(_steps).content) == [14, 14]


def test_while_a_page_is_made_nothing_is_read_on_and_nobody_waits(run):
    begun, ends = threading.Event(), threading.Event()

    def slow(_collected: Collected, _found: Overview) -> bytes:
        begun.set()
        ends.wait(30)
        return b""

    follower = Follower(run)
    before = follower.poll(0)
    making = threading.Thread(target=follower.render, args=(slow,))
    making.start()
    begun.wait(30)
    assert follower.poll(10) == before
    ends.set()
    making.join()
    _read_all(follower)
    assert json.loads(follower.render(_steps).content) == [14, 14]


def test_stopping_ends_a_query_that_a_page_waits_for_and_lets_no_page_be_made_any_more(run):
    begun = threading.Event()

    def endless(collected: Collected, _found: Overview) -> bytes:
        begun.set()
        collected.tables.value("WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n")
        return b""

    def made(build: Build) -> None:
        with pytest.raises(RenderingError):
            follower.render(build)
        failed.append(build)

    failed: list[Build] = []
    follower = Follower(run)
    _read_all(follower)
    making = threading.Thread(target=made, args=(endless,))
    making.start()
    begun.wait(30)
    follower.stop()
    making.join()
    made(_steps)
    assert failed == [endless, _steps]


def test_a_run_that_the_disk_has_no_room_for_is_read_from_the_begin_once_there_is_some(run, monkeypatch):
    def leave_no_room(collected: Collected) -> bytes:
        return str(collected.tables.value("PRAGMA max_page_count = 1")).encode()

    follower = Follower(run)
    follower.grow(leave_no_room)
    _read_all(follower)
    with pytest.raises(RenderingError, match="cannot be kept"):
        follower.render(_steps)
    with pytest.raises(NoRoom, match="cannot be kept"):
        follower.poll(10)
    monkeypatch.setattr(follower, "_tried_again", 0.0)
    _read_all(follower)
    assert json.loads(follower.render(_steps).content) == [14, 14]


def test_a_folder_that_is_deleted_is_gone_and_what_was_read_is_shown(run):
    follower = Follower(run)
    _read_all(follower)
    shutil.rmtree(run)
    follower.poll(1)
    assert follower.is_gone
    assert json.loads(follower.render(_steps).content) == [14, 14]


def test_a_folder_without_a_run_is_no_input(tmp_path):
    with pytest.raises(UnusableInput, match="is empty"):
        Follower(tmp_path)
