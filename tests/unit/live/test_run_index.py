"""Which runs of a data folder are live, and how often that is looked at."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from otel_rl.live import run_index
from otel_rl.live.run_index import RunIndex
from otel_rl.process import lifetime

if TYPE_CHECKING:
    from pathlib import Path


def _write(data: Path, run: str, own: object, quiet: float) -> Path:
    """Write a process without an end that has written nothing for some seconds."""
    folder = data / run / "node-rank0-12345678"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"format": "otel-rl/1", "lifetime": own}))
    moment = time.time() - quiet
    os.utime(folder / "manifest.json", (moment, moment))
    return folder


def _live(index: RunIndex, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(index, "_due", 0.0)
    return [run.name for run in index.runs() if run.is_live]


@pytest.fixture
def here() -> list[object]:
    own = lifetime.own()
    return [own.boot_id, own.pid, own.start_ticks, own.pid_namespace]


def test_a_process_of_this_machine_that_hangs_for_an_hour_is_live(tmp_path, here, monkeypatch) -> None:
    _write(tmp_path, "hangs", here, 3600)
    _write(tmp_path, "killed", [here[0], 2**22 + 1, 5, here[3]], 3600)
    assert _live(RunIndex(tmp_path), monkeypatch) == ["hangs"]


def test_what_runs_elsewhere_is_live_again_once_it_goes_on_to_write(tmp_path, here, monkeypatch) -> None:
    index = RunIndex(tmp_path)
    folder = _write(tmp_path, "elsewhere", ["another-boot", *here[1:]], 3600)
    assert _live(index, monkeypatch) == []
    os.utime(folder / "manifest.json")
    assert _live(index, monkeypatch) == ["elsewhere"]


def test_a_process_of_which_nothing_more_is_expected_is_not_looked_into_again(tmp_path, here, monkeypatch) -> None:
    index = RunIndex(tmp_path)
    _write(tmp_path, "killed", [here[0], 2**22 + 1, 5, here[3]], 3600)
    _write(tmp_path, "elsewhere", ["another-boot", *here[1:]], 2 * 86400)
    assert _live(index, monkeypatch) == []
    monkeypatch.setattr(run_index, "from_folder", None)
    assert _live(index, monkeypatch) == []


def test_a_list_that_takes_long_is_kept_for_long(tmp_path, monkeypatch) -> None:
    now, index, found = [1000.0], RunIndex(tmp_path), []

    def find() -> list[run_index.ListedRun]:
        found.append(now[0])
        now[0] += 3.0
        return []

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(index, "_find", find)
    while now[0] < 1100:
        index.runs()
        now[0] += 1.0
    assert found == [1000.0, 1063.0]
