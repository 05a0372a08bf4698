"""A page that follows a run: its curves soon after they were read, and all of it in the end."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("bokeh", reason="the extra `report` is not installed")

from unit.live.growing import GrowingRun
from unit.live.runs_in_part import collected, first_page
from unit.report.synthetic_run import GrpoRun

from otel_rl.live.run_watch import RunWatch
from otel_rl.live.standing import Standing

if TYPE_CHECKING:
    from pathlib import Path


def test_curves_come_soon_and_in_the_end_a_browser_has_all_that_the_report_shows(tmp_path: Path) -> None:
    recorded = GrpoRun(tmp_path / "recorded").write()
    soon, then, state = asyncio.run(_followed(GrowingRun(recorded, tmp_path / "growing"), tmp_path))
    assert soon["charts"]
    assert set(soon.get("blocks", ())) <= {"tiles"}
    assert {key.partition("-")[0] for key in soon["charts"]} <= {"steps", "training"}
    assert {"steps", "tools"} <= {key.partition("-")[0] for key in then["blocks"]}
    whole = first_page(collected(recorded))["state"]
    assert {key: value for key, value in state.items() if key.startswith("chart-")} == {
        key: value for key, value in whole.items() if key.startswith("chart-")
    }


async def _followed(growing: GrowingRun, folder: Path) -> Any:
    """Return what a browser gets at once of the second half of a run, what then, and what it has in the end."""
    pieces = growing.pieces(2)
    next(pieces)
    watch = RunWatch(growing.folder, ring_directory=folder)
    await watch.first_page()
    queue: Any = watch.listen(None)
    for _ in pieces:
        pass
    await watch._read(30)
    watch._pace.rendered(now := time.monotonic(), 1.0)
    watch._pace.has_read(now)
    while not queue.empty():
        queue.get_nowait()
    # As while its processes run.
    watch.standing, watch._is_urgent = Standing(), False
    await watch._render_changes(now)
    soon = json.loads(queue.get_nowait().data)
    are_shown = [watch.is_shown]
    watch._is_urgent = True
    await watch._render_changes(now)
    assert [*are_shown, watch.is_shown] == [False, True]
    return soon, json.loads(queue.get_nowait().data), watch._state
