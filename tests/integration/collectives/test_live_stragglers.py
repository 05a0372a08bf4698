"""A rank that keeps the others waiting is named while the job runs; ranks that work alike are not."""

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
PROGRAM = """
import sys, time, torch, otel_rl, torch.distributed as dist
place, length, steps = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("gloo")
late = dist.get_rank() == 1

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, given):
        between = self.first(given)
        if place == "backward" and late:
            between.register_hook(lambda gradient: time.sleep(length / 2))
        return self.second(between)

model = torch.nn.parallel.DistributedDataParallel(Model())
for number in range(1, steps + 1):
    with otel_rl.step(number):
        with otel_rl.phase("sample"):
            time.sleep(length)
        with otel_rl.phase("reward"):
            if place == "reward" and late:
                time.sleep(length / 2)
        with otel_rl.phase("train"):
            model(torch.ones(4, 8)).sum().backward()
if place == "nowhere":
    # Calm ranks are compared rarely: the program ends when a comparison has been exported, or after a minute.
    from otel_rl.ranks.stragglers import watch
    for number in range(steps + 1, steps + 600):
        compared = torch.tensor(float(watch.latest() is not None))
        dist.all_reduce(compared)
        if compared:
            break
        with otel_rl.step(number), otel_rl.phase("sample"):
            time.sleep(length)
            dist.barrier()
dist.destroy_process_group()
"""


def _events(folder: Path, place: str, length: float, steps: int, ranks: int = 2) -> tuple[list[dict[str, Any]], dict]:
    """Run the program; return the events of stragglers, and the last values of the gauges."""
    (folder / "train.py").write_text(PROGRAM)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
    command = [SCRIPTS / "opentelemetry-instrument", SCRIPTS / "torchrun", "--standalone", f"--nproc-per-node={ranks}"]
    subprocess.run(
        [*command, "train.py", place, str(length), str(steps)],
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
    return _records(folder), _gauges(folder)


def _records(folder: Path) -> list[dict[str, Any]]:
    found = []
    for line in _lines(folder, "logs"):
        for resource in line["resourceLogs"]:
            for scope in resource["scopeLogs"]:
                found += [one for one in scope["logRecords"] if one.get("eventName", "").startswith("rl.straggler")]
    return [{"event": one["eventName"], **_attributes(one)} for one in found]


def _gauges(folder: Path) -> dict[str, list[tuple[dict[str, Any], float]]]:
    found: dict[str, list[tuple[dict[str, Any], float]]] = {}
    for line in _lines(folder, "metrics"):
        for resource in line["resourceMetrics"]:
            for scope in resource["scopeMetrics"]:
                for metric in scope["metrics"]:
                    points = metric.get("gauge", {}).get("dataPoints", [])
                    found.setdefault(metric["name"], []).extend(
                        (_attributes(one), one["asDouble"]) for one in points if "asDouble" in one
                    )
    return found


def _lines(folder: Path, signal: str) -> list[dict[str, Any]]:
    files = (folder / "otel-rl").glob(f"*/*/{signal}*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _attributes(item: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in item.get("attributes", [])}


@pytest.mark.parametrize("place", ["reward", "backward"])
def test_the_late_rank_is_named_with_phase_and_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    events, gauges = _events(tmp_path, place, 0.1, 60)

    [event] = [one for one in events if one["event"] == "rl.straggler"]
    assert event["rl.straggler.rank"] == "1"
    assert event["rl.phase"] == ("reward" if place == "reward" else "train")
    assert event["torch.distributed.operation"] == "all_reduce"
    # A third of the step is the delay.
    assert event["rl.straggler.lost_time"] == pytest.approx(0.05, abs=0.0075)
    assert event["rl.straggler.lost_share"] == pytest.approx(1 / 3, abs=0.05)
    assert {point["rl.straggler.rank"] for point, value in gauges["rl.straggler.lost_share"] if value > 0.2} == {"1"}
    assert max(value for _, value in gauges["torch.distributed.arrival.spread"]) > 0.04
    assert main(["report", str(tmp_path / "otel-rl" / "run"), "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    [finding] = [one for one in findings if one["code"] == "late_rank"]
    assert finding["ranks"] == [1]
    # Late from the first step on; before the first step that the job compared there may be none to judge.
    assert finding["onset_step"] in (None, int(event["rl.straggler.first_iteration"]))


def test_nobody_is_named_where_the_ranks_work_alike(tmp_path: Path) -> None:
    events, gauges = _events(tmp_path, "nowhere", 0.1, 60)

    assert not events
    assert gauges["torch.distributed.arrival.wait_share"]
