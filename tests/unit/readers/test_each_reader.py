"""Each reader does its main job in every environment; what it says of which run is tested in one environment."""

from __future__ import annotations

import csv
import gzip
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from unit.report.synthetic_run import SECOND, GrpoRun, process, write_agent_run

from otel_rl.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a training run, a run of an agent and a run with rollout rows; nobody changes it."""
    folder = tmp_path_factory.mktemp("data")
    GrpoRun(folder, steps=6).write()
    write_agent_run(folder, rollouts=6)
    rows = process(folder / "rows-2", 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    rows.event("rl.trajectories", 1.0, {"rl.rollout.id": ["first", "second"]}, {"rl.loop.iteration": 1})
    rows.write()
    return folder


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run `otel-rl` in this process; returns what it prints."""

    def run(*arguments: object) -> str:
        assert main([str(argument) for argument in arguments]) == 0
        return capsys.readouterr().out

    return run


def test_a_report_shows_steps_tools_and_the_error(data: Path, tmp_path: Path, command: Callable[..., str]):
    page = tmp_path / "page.html"
    command("report", data / "grpo-7f3a", "--output", page)
    content = page.read_text(encoding="utf-8")
    assert "OutOfMemoryError" in content
    assert "calculator" in content
    command("report", data / "agent-11d0", "--output", page)
    assert "search" in page.read_text(encoding="utf-8")


def test_the_summary_of_a_report_is_json(data: Path, command: Callable[..., str]):
    summary = json.loads(command("report", data / "grpo-7f3a", "--json"))
    assert summary["findings"][0]["code"] == "ended"


def test_top_prints_a_frame_of_the_run(data: Path, command: Callable[..., str]):
    assert "grpo-7f3a" in command("top", data / "grpo-7f3a", "--once")


def test_runs_logs_and_rollouts_are_listed(data: Path, command: Callable[..., str]):
    listed = command("runs", data)
    assert "grpo-7f3a" in listed
    assert "agent-11d0" in listed
    assert "OutOfMemoryError" in command("logs", data / "grpo-7f3a")
    rows = [json.loads(line) for line in command("trajectories", data / "rows-2").splitlines()]
    assert [row["rl.rollout.id"] for row in rows] == ["first", "second"]


def test_a_run_is_exported_as_a_trace_and_as_tables(data: Path, tmp_path: Path, command: Callable[..., str]):
    command("export", data / "grpo-7f3a", "--perfetto", tmp_path / "trace.json.gz")
    events = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]
    assert any(event.get("name") == "execute_tool calculator" for event in events)
    command("export", data / "grpo-7f3a", "--csv", tmp_path / "tables")
    with (tmp_path / "tables" / "spans.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) > 100


def test_the_live_page_of_a_run_is_served(data: Path):
    with subprocess.Popen(
        [Path(sys.executable).with_name("otel-rl"), "live", data, "--run", "grpo-7f3a", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            address: Any = re.search(r"http://127\.0\.0\.1:\S+", process.stdout.readline())
            with urlopen(address.group(), timeout=60) as answer:
                assert "grpo-7f3a" in answer.read().decode()
        finally:
            process.terminate()


def test_a_collector_configuration_is_composed(command: Callable[..., str]):
    composed = command("collector", "config", "--role", "local", "--sink", "file")
    assert "receivers:" in composed
    assert "redaction" in composed


def test_boards_and_rules_are_built_as_they_are_committed(capsys: pytest.CaptureFixture[str]):
    done = subprocess.run(
        [sys.executable, "-m", "dashboards", "build", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
