"""Several late ranks: each is named, live and in the report, with what mending it alone and with the others gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from otel_rl.cli import main

SCRIPTS = Path(sys.executable).parent
PROGRAM = Path(__file__).with_name("late_in_turn_program.py")


def _run(folder: Path, kind: str, steps: int, ranks: int) -> dict[int, dict[str, Any]]:
    """Run the program; return the first event of each rank."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
    torchrun = [SCRIPTS / "torchrun", "--standalone", f"--nproc-per-node={ranks}"]
    subprocess.run(
        [SCRIPTS / "opentelemetry-instrument", *torchrun, PROGRAM, kind, str(steps)],
        cwd=folder,
        env={
            **environ,
            "OTEL_RL_RUN_ID": "run",
            "OTEL_RL_RING": "on",
            "OTEL_RL_RING_DIR": str(folder),
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
            "OTEL_RL_RAISE_INTERNAL_ERRORS": "1",
            "OMP_NUM_THREADS": "1",
        },
        check=True,
        timeout=300,
    )
    found: dict[int, dict[str, Any]] = {}
    for record in _of(folder, "logs", "resourceLogs", "scopeLogs", "logRecords"):
        if record.get("eventName") == "rl.straggler":
            values = _attributes(record)
            found.setdefault(int(values["rl.straggler.rank"]), values)
    return found


def _gauge(folder: Path, name: str) -> dict[int, float]:
    """Rank -> last value of the gauge."""
    values: dict[int, float] = {}
    for metric in _of(folder, "metrics", "resourceMetrics", "scopeMetrics", "metrics"):
        if metric["name"] == name:
            for point in metric["gauge"]["dataPoints"]:
                values[int(_attributes(point)["rl.straggler.rank"])] = point["asDouble"]
    return values


def _of(folder: Path, signal: str, resources: str, scopes: str, items: str) -> list[dict[str, Any]]:
    files = sorted((folder / "otel-rl").glob(f"*/*/{signal}*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [
        item for line in lines for resource in line[resources] for scope in resource[scopes] for item in scope[items]
    ]


def _attributes(item: dict[str, Any]) -> dict[str, Any]:
    values = {one["key"]: next(iter(one["value"].values())) for one in item.get("attributes", [])}
    beside = values.get("rl.straggler.beside", {}).get("values", [])
    return {**values, "rl.straggler.beside": [int(one["intValue"]) for one in beside]}


def _said(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[int, dict[str, Any]]:
    assert main(["report", str(folder / "otel-rl" / "run"), "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    return {finding["ranks"][0]: finding for finding in findings if finding["code"] == "late_rank"}


def test_two_ranks_that_are_late_in_different_phases_are_named_with_these(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _run(tmp_path, "two_phases", 60, 2)

    assert {rank: event["rl.phase"] for rank, event in told.items()} == {0: "reward", 1: "sample"}
    for event in told.values():
        # 60 of 220 ms each; a busy machine adds to the steps.
        assert event["rl.straggler.alone_lost_time"] == pytest.approx(0.06, abs=0.015)
        assert event["rl.straggler.lost_share"] == pytest.approx(0.26, abs=0.07)
    assert set(_gauge(tmp_path, "rl.straggler.lost_share")) == {0, 1}
    said = _said(tmp_path, capsys)
    assert "Rank 0 worked longer than the fastest in phase reward in " in said[0]["text"]
    assert "Rank 1 worked longer than the fastest in phase sample in " in said[1]["text"]
    for rank, finding in said.items():
        assert f"Mending rank {rank} alone gives back " in finding["text"]
        assert f"; with rank {1 - rank} mended too, 1" in finding["text"]
        assert finding["cost"] == pytest.approx(0.26, abs=0.07)
        assert finding["onset_step"] is None, "late from the first compared step on"


def test_two_of_four_ranks_are_named_and_mending_one_of_them_is_not_said_to_help(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _run(tmp_path, "two_of_four", 80, 4)

    assert {rank: event["rl.straggler.beside"] for rank, event in told.items()} == {2: [3], 3: [2]}
    for event in told.values():
        assert event["rl.straggler.lost_time"] == pytest.approx(0.06, abs=0.015)
        assert event["rl.straggler.alone_lost_time"] < 0.015
    said = _said(tmp_path, capsys)
    assert set(said) == {2, 3}
    for rank, finding in said.items():
        assert f"Mending rank {rank} alone gives back " in finding["text"]
        assert f"; with rank {5 - rank} mended too, " in finding["text"]
        assert 0.3 < finding["cost"] < 0.6


def test_a_rank_that_evaluates_in_every_second_step_is_named_with_its_share_of_all_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _run(tmp_path, "other_step", 60, 2)

    assert set(told) == {0}
    assert told[0]["rl.phase"] == "evaluate"
    # 150 of 200 ms.
    assert told[0]["rl.straggler.lost_share"] == pytest.approx(0.74, abs=0.08)
    [(rank, share)] = _gauge(tmp_path, "rl.straggler.lost_share").items()
    assert (rank, share) == (0, pytest.approx(0.74, abs=0.08))
    [finding] = _said(tmp_path, capsys).values()
    assert finding["ranks"] == [0]
    assert finding["cost"] == pytest.approx(0.73, abs=0.08)
    assert "in phase evaluate" in finding["text"]
