"""A program with actors of a real Ray: whose their work is, that none of it is lost, and how they ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support import own_command, shared_runs

pytest.importorskip("ray")

PROGRAM = Path(__file__).with_name("actors_program.py")
#: A busy machine starts Ray's own processes slowly.
PATIENCE = {
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def _run(folder: Path, *prefix: str) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "RAY_"))}
    folder.mkdir(exist_ok=True)
    ended = subprocess.run(
        [*prefix, sys.executable, PROGRAM, folder],
        env=clean | PATIENCE | {"OTEL_RL_DATA_DIR": str(folder / "otel-rl"), "OTEL_RL_RUN_ID": "run"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    (folder / "stdout").write_text(ended.stdout, encoding="utf-8")


def _make(folder: Path) -> None:
    _run(folder / "watched", str(Path(sys.executable).with_name("opentelemetry-instrument")))
    # Ray ends its workers after its driver, on a busy machine seconds later: until then the job runs.
    until = time.monotonic() + 120
    while any(_runs(file) for file in folder.glob("watched/otel-rl/run/*/manifest.json")):
        assert time.monotonic() < until
        time.sleep(0.1)


def _runs(manifest: Path) -> bool:
    return Path(f"/proc/{json.loads(manifest.read_text())['pid']}").exists()


class Run:
    """What the processes of the run have written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spans: list[dict[str, Any]] = []
        self.logs: list[dict[str, Any]] = []
        self.calls: dict[tuple[str, str], int] = {}
        self.manifests = [json.loads(path.read_text()) for path in folder.glob("otel-rl/run/*/manifest.json")]
        self.workers: dict[str, dict[str, Any]] = {}
        for signal, add in (("traces", self._add_spans), ("logs", self._add_logs), ("metrics", self._add_metrics)):
            for file in sorted(folder.glob(f"otel-rl/run/*/{signal}-*.jsonl")):
                for line in file.read_text().splitlines():
                    add(json.loads(line))

    def _add_spans(self, line: dict[str, Any]) -> None:
        for resource in line["resourceSpans"]:
            worker = _attributes(resource["resource"])
            for scope in resource["scopeSpans"]:
                self.spans += [{**span, "at": _attributes(span), "worker": worker} for span in scope["spans"]]

    def _add_logs(self, line: dict[str, Any]) -> None:
        for resource in line["resourceLogs"]:
            for scope in resource["scopeLogs"]:
                self.logs += [{**log, "at": _attributes(log)} for log in scope["logRecords"]]

    def _add_metrics(self, line: dict[str, Any]) -> None:
        for resource in line["resourceMetrics"]:
            worker = _attributes(resource["resource"])
            for scope in resource["scopeMetrics"]:
                for metric in scope["metrics"]:
                    if metric["name"] == "rl.worker.call.duration":
                        for point in metric["histogram"]["dataPoints"]:
                            key = str(worker["process.pid"]), _attributes(point)["code.function.name"]
                            self.calls[key] = int(point["count"])

    def named(self, name: str) -> list[dict[str, Any]]:
        """The spans of this name."""
        return [span for span in self.spans if span["name"] == name]

    def events(self, name: str) -> list[dict[str, Any]]:
        """The attributes of the events of this name."""
        return [log["at"] for log in self.logs if log.get("eventName") == name]


def _attributes(item: dict[str, Any]) -> dict[str, Any]:
    return {entry["key"]: next(iter(entry["value"].values()), None) for entry in item.get("attributes", ())}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(shared_runs.once(tmp_path_factory, "ray-actors", _make) / "watched")


def test_the_program_sees_what_it_sees_without_us(run):
    # Of Ray's own messages the ends of lines are written apart.
    said = [line for line in (run.folder / "stdout").read_text().splitlines() if line and "(raylet)" not in line]
    assert said == ["caught of the program", "died ActorDiedError", "back", "done"]


def test_each_process_of_the_job_has_its_class_and_role(run):
    found = {(one["worker_name"], one["role"]) for one in run.manifests}
    assert {("Learner", "trainer"), ("RolloutWorker", "rollout"), ("Phoenix", None), (None, "driver")} <= found
    assert {one["run_id"] for one in run.manifests} == {"run"}


def test_a_call_within_a_step_is_a_child_of_it(run):
    steps = {span["traceId"]: span for span in run.named("rl.rank.step") if span["at"]["rl.loop.source"] == "given"}
    assert len(steps) == 2
    for name in ("RolloutWorker.wait",):
        calls = run.named(name)
        assert {call["parentSpanId"] for call in calls} <= {step["spanId"] for step in steps.values()}
        assert [call["at"]["rl.loop.iteration"] for call in calls] == ["1", "2"]


def test_what_a_call_records_is_in_the_trace_of_its_callers_step(run):
    # Whether a call has a span of its own depends on how long it took.
    steps = {span["traceId"] for span in run.named("rl.rank.step")}
    assert len(run.named("inside")) == 3
    assert [span["traceId"] in steps for span in run.named("inside")].count(True) == 2
    assert all(span.get("parentSpanId") for span in run.named("inside") if span["traceId"] in steps)


def test_rollouts_that_go_on_beside_their_call_are_of_the_step_that_began_them(run):
    own = [span for span in run.named("rl.rank.step") if span["at"]["rl.loop.source"] == "given"]
    steps = {span["at"]["rl.loop.iteration"]: span["spanId"] for span in own}
    rollouts = run.named("rl.rollout")
    assert sorted(span["at"]["rl.rollout.id"] for span in rollouts) == ["r-10", "r-11", "r-20", "r-21"]
    for span in rollouts:
        assert span["links"][0]["spanId"] == steps[span["at"]["rl.loop.iteration"]]
    driver = next(one for one in run.manifests if one["role"] == "driver" and one["worker_name"] is None)
    records = run.events("rl.trajectories")
    assert {record["rl.trajectories.caller_pid"] for record in records} == {str(driver["pid"])}


def test_what_the_last_call_of_a_killed_actor_has_recorded_is_there(run):
    killed = next(end for end in run.events("rl.worker.end") if end["rl.worker.end.reason"] == "RAY_KILL")
    assert any(span["worker"]["process.pid"] == killed["rl.child.pid"] for span in run.named("inside"))


def test_what_an_unknown_trainer_logs_by_step_are_its_steps(run):
    steps = [span for span in run.named("rl.loop") if span["worker"].get("rl.worker.name") == "Controller"]
    assert [span["at"]["rl.loop.iteration"] for span in steps] == ["1", "2", "3"]
    assert {span["at"]["rl.loop.source"] for span in steps} == {"logged"}
    assert len(run.named("rl.sample")) == 3


def test_a_task_has_a_process_and_its_spans(run):
    (span,) = run.named("in a task")
    assert run.calls[str(span["worker"]["process.pid"]), "task"] == 1


def test_the_driver_records_how_its_actors_ended(run):
    ends = {
        (end["rl.worker.name"], end["rl.worker.end.reason"], end["rl.worker.end.expected"])
        for end in run.events("rl.worker.end")
    }
    assert {("Learner", "RAY_KILL", True), ("Learner", "WORKER_DIED", False)} <= ends
    assert [end["rl.worker.restarts"] for end in run.events("rl.worker.end") if "rl.worker.restarts" in end] == ["1"]


def test_a_job_whose_driver_ended_well_is_in_order_and_its_dead_actors_are_warnings(run, tmp_path):
    row = own_command.otel_rl(tmp_path, "runs", run.folder / "otel-rl").stdout
    assert PROGRAM.name in row
    assert "in order" in row
    said = own_command.otel_rl(tmp_path, "report", run.folder / "otel-rl" / "run", "-o", tmp_path / "r.html").stderr
    assert "critical" not in said
    assert "died (Ray says that its process was killed or crashed); the program went on" in said
    assert "died, and Ray started it again; the program went on" in said
