"""Runs in the files of collectors on the live page: no folder of a process says what became of them."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("bokeh", reason="the extra `report` is not installed")

from unit.report.synthetic_run import process

from otel_rl.live import run_pages
from otel_rl.live.run_index import RunIndex
from otel_rl.live.run_watch import RunWatch
from otel_rl.report.core import human

if TYPE_CHECKING:
    from pathlib import Path

_DAY = 86400


def _write(folder: Path, run_id: str, days: float) -> None:
    """Append the records of a run of some days ago to the files of a collector."""
    began = time.time_ns() - round(days * _DAY * 1e9)
    writer = process(folder / run_id, 0, world_size=1, started=began, **{"rl.run.id": run_id})
    writer.event("rl.run.start", 0.5, None, {})
    for step in range(1, 7):
        writer.span("rl.loop", step, step + 1.0, {"rl.loop.iteration": step})
        writer.event("rl.step", step + 1.0, {"loss": 1 / step}, {"rl.loop.iteration": step})
    written = writer.write()
    (folder / "collected").mkdir(exist_ok=True)
    for file in written.rglob("*.jsonl"):
        with (folder / "collected" / f"{file.name.partition('-')[0]}.jsonl").open("a") as collected:
            collected.write(file.read_text())


def _rows(directory: Path) -> dict[str, list[str]]:
    """Cells of the list by the name of the run."""
    html = run_pages.runs(str(directory), RunIndex(directory).runs(), "", 1, "nonce").decode()
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", html)]
    return {re.sub("<[^>]*>", "", row[0]): row[1:] for row in cells}


def test_the_last_sign_of_each_is_that_of_its_records_and_only_a_recent_one_may_run(tmp_path: Path) -> None:
    for run_id, days in (("last-week", 7.0), ("yesterday", 1.0), ("now", 0.0)):
        _write(tmp_path, run_id, days)
    rows = _rows(tmp_path / "collected")
    assert list(rows) == ["now", "yesterday", "last-week"]
    assert rows["yesterday"][1].startswith(("1 d", "24 h", "23 h"))
    assert rows["last-week"][1].startswith(("7 d", "6 d"))
    listed = RunIndex(tmp_path / "collected").runs()
    assert [run.name for run in listed if run.is_live] == ["now"]


def test_one_that_the_ends_of_the_files_do_not_name_has_no_line_of_another(tmp_path: Path) -> None:
    _write(tmp_path, "early", 2.0)
    for number in range(3):
        _write(tmp_path, f"late-{number}", 1.0)
    for file in (tmp_path / "collected").iterdir():
        lines = file.read_text().splitlines(keepends=True)
        # So much of the last run that the first one is not within what is read of the end.
        file.write_text("".join([*lines, *(lines[-1] * (1 + 300_000 // len(line)) for line in lines[-1:])]))
    state, last_sign, step, *_ = _rows(tmp_path / "collected")["early"]
    assert (state, last_sign, step) == ("not known", human.UNKNOWN, human.UNKNOWN)


@pytest.mark.parametrize(("days", "state"), [(0.0, "unknown"), (1.0, "gone")])
def test_its_page_says_how_it_stands_by_what_was_recorded(tmp_path: Path, days: float, state: str) -> None:
    # No other test may leave a ring of such a run.
    _write(tmp_path, "run-of-collected-files", days)

    async def status() -> dict:
        watch = RunWatch(tmp_path / "collected")
        watch.start()
        await watch.first_page()
        watch._look()
        said = watch.status()["status"]
        await watch.close()
        return said

    said = asyncio.run(status())
    assert (said["state"], said["step"]) == (state, 6)
    (sign,) = said["processes"]
    assert (sign["label"], sign["state"]) == ("rank 0", state)
    assert state == "gone" or sign["silent"] < 60
