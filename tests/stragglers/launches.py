"""Running a job of :mod:`cases`, and judging its events: found, missed, or a false alarm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cases import Launch

SCRIPTS = Path(sys.executable).parent
PROGRAM = Path(__file__).with_name("injected_program.py")
#: Seconds after the end of the first delayed step within which the event has to come.
DEADLINE = 5.0
#: Where the late rank works longer than the others, as the program names its phases.
PHASES = {"compute": "sample", "data": "data_wait", "reward": "reward", "backward": "train", "network": "train"}


@dataclass
class Outcome:
    """Of one job."""

    launch: Launch
    #: One per injection: what was injected, and what was found of it.
    rows: list[dict[str, Any]] = field(default_factory=list)
    false_alarms: list[dict[str, Any]] = field(default_factory=list)

    @property
    def found(self) -> int:
        """Injections whose rank was named in time."""
        return sum(row["found"] for row in self.rows)


def run(launch: Launch, folder: Path) -> Outcome:
    """Run the job in ``folder``, and compare its events with what was injected."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(launch.plan))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
    torchrun = [SCRIPTS / "torchrun", "--standalone", f"--nproc-per-node={launch.ranks}"]
    subprocess.run(
        [SCRIPTS / "opentelemetry-instrument", *torchrun, PROGRAM, folder / "plan.json", folder],
        cwd=folder,
        env={
            **environ,
            "OTEL_RL_RUN_ID": "run",
            "OTEL_RL_RING": "on",
            "OTEL_RL_RING_DIR": str(folder),
            "OMP_NUM_THREADS": "1",
        },
        check=True,
        timeout=600,
    )
    outcome = judge(launch, _times(folder), _events(folder))
    if not launch.injections:
        outcome.false_alarms += _late_in_report(folder)
    return outcome


def judge(launch: Launch, times: dict[str, dict[str, int]], events: list[dict[str, Any]]) -> Outcome:
    """Give each event to the injection during which it came."""
    outcome = Outcome(launch)
    left = [event for event in events if event["name"] == "rl.straggler"]
    for injection in launch.injections:
        moments = times[str(injection["number"])]
        ended = moments["ended"] + DEADLINE * 1e9
        mine = [event for event in left if moments["began"] <= event["time"] <= ended]
        left = [event for event in left if event not in mine]
        named = [event for event in mine if event["rank"] == injection["rank"]]
        outcome.false_alarms += [event for event in mine if event["rank"] != injection["rank"]]
        after = (named[0]["time"] - moments["first_ended"]) / 1e9 if named else None
        outcome.rows.append(
            {
                "launch": launch.name,
                "kind": injection["kind"],
                "rank": injection["rank"],
                "found": after is not None and after <= DEADLINE,
                "seconds_after_first_step": None if after is None else round(after, 2),
                "phase_is_right": bool(named) and named[0]["phase"] == PHASES[injection["kind"]],
                "lost_seconds": round(named[0]["lost"], 4) if named else None,
                "injected_seconds": injection["seconds"],
            }
        )
    outcome.false_alarms += left
    return outcome


def _late_in_report(folder: Path) -> list[dict[str, Any]]:
    """Return what the report says of late ranks."""
    report = [SCRIPTS / "otel-rl", "report", folder / "otel-rl" / "run", "--json"]
    said = json.loads(subprocess.run(report, cwd=folder, check=True, timeout=300, stdout=subprocess.PIPE).stdout)
    findings = [*said["findings"], *(symptom for finding in said["findings"] for symptom in finding["symptoms"])]
    return [finding for finding in findings if finding["code"] == "late_rank"]


def _times(folder: Path) -> dict[str, dict[str, int]]:
    """Injection -> when its first step began and ended, and when its last one ended, over all ranks."""
    of_ranks = [json.loads(file.read_text()) for file in folder.glob("times-*.json")]
    return {
        number: {
            "began": min(one[number]["began"] for one in of_ranks),
            "first_ended": max(one[number]["first_ended"] for one in of_ranks),
            "ended": max(one[number]["ended"] for one in of_ranks),
        }
        for number in of_ranks[0]
    }


def _events(folder: Path) -> list[dict[str, Any]]:
    found = []
    for file in sorted((folder / "otel-rl").glob("*/*/logs*.jsonl")):
        for line in file.read_text().splitlines():
            for resource in json.loads(line)["resourceLogs"]:
                for scope in resource["scopeLogs"]:
                    found += [_event(record) for record in scope["logRecords"] if _is_straggler(record)]
    return sorted(found, key=lambda event: event["time"])


def _is_straggler(record: dict[str, Any]) -> bool:
    return str(record.get("eventName", "")).startswith("rl.straggler")


def _event(record: dict[str, Any]) -> dict[str, Any]:
    values = {one["key"]: next(iter(one["value"].values())) for one in record["attributes"]}
    return {
        "name": record["eventName"],
        "time": int(record["timeUnixNano"]),
        "rank": int(values["rl.straggler.rank"]),
        "phase": values.get("rl.phase", ""),
        "lost": float(values["rl.straggler.lost_time"]),
        "iteration": int(values["rl.loop.iteration"]),
    }
