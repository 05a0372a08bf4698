"""Jobs that do not end in order: a rank hangs, is killed, or finds no memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

SCRIPTS = Path(sys.executable).parent
PROGRAM = Path(__file__).with_name("ending_program.py")
STEP = 12
#: The watchdog's limit, and how soon after it the report has to come.
HANG, DEADLINE = 5, 5.0
TIMEOUT = 300


class Ending(NamedTuple):
    """What happens, to which rank of how many."""

    kind: str
    rank: int
    ranks: int


NIGHTLY = [
    *(Ending("hang", rank, ranks) for rank, ranks in ((1, 2), (0, 4), (2, 4), (3, 4))),
    *(Ending("kill", rank, ranks) for rank, ranks in ((0, 2), (1, 4), (2, 4), (3, 4))),
    *(Ending("memory", rank, ranks) for rank, ranks in ((1, 2), (2, 4))),
]
QUICK = [Ending("hang", 1, 2), Ending("kill", 2, 4)]


def run(ending: Ending, folder: Path) -> dict[str, Any]:
    """Run the job in ``folder``; return what `otel-rl postmortem` and the events say of it."""
    folder.mkdir(parents=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
    arguments = [ending.kind, str(ending.rank), str(STEP), folder]
    job = subprocess.Popen(
        [
            *(SCRIPTS / "opentelemetry-instrument", SCRIPTS / "torchrun", "--standalone"),
            *(f"--nproc-per-node={ending.ranks}", PROGRAM, *arguments),
        ],
        cwd=folder,
        env={
            **environ,
            "OTEL_RL_RUN_ID": "run",
            "OTEL_RL_RING_DIR": str(folder),
            "OTEL_RL_HANG_SECONDS": str(HANG),
            "OMP_NUM_THREADS": "1",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        if ending.kind == "hang":
            _await(folder, job)
        else:
            job.wait(TIMEOUT)
        return _judge(ending, folder, _postmortem(folder))
    finally:
        job.terminate()
        job.wait(TIMEOUT)


def _await(folder: Path, job: subprocess.Popen[bytes]) -> None:
    """Wait until each rank has reported the hang."""
    deadline = time.monotonic() + TIMEOUT
    while len(_hangs(folder)) < len(list(folder.glob("*.ring"))) or not (folder / "began").exists():
        assert job.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _postmortem(folder: Path) -> dict[str, Any]:
    command = [SCRIPTS / "otel-rl", "postmortem", folder / "otel-rl", "--ring-dir", folder, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _judge(ending: Ending, folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    (late,) = (one for one in found["ranks"] if one["rank"] == ending.rank)
    after = [(moment - int((folder / "began").read_text())) / 1e9 for moment in _hangs(folder)]
    row: dict[str, Any] = {
        **ending._asdict(),
        "origin_is_right": found["origins"] == [ending.rank],
        "step_is_right": late["step"] == STEP,
        "phase_is_right": late["inside"][-1:] == ["reward"] or ending.kind == "memory",
        "number_is_right": late["collective"] is not None and late["collective"]["number"] is not None,
        "cause": late["cause"],
    }
    if ending.kind == "hang":
        row["seconds_to_report"] = round(max(after), 2)
        row["in_time"] = max(after) <= HANG + DEADLINE
    return row


def _hangs(folder: Path) -> list[int]:
    """Moments (ns) of the events."""
    return [
        int(record["timeUnixNano"])
        for file in (folder / "otel-rl").glob("*/*/logs*.jsonl")
        for line in file.read_text().splitlines()
        if line.endswith("}")
        for resource in json.loads(line)["resourceLogs"]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
        if record.get("eventName") == "rl.hang"
    ]
