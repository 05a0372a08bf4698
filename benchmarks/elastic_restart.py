"""How a job recovers when a rank fails and torchrun restarts it: plain against instrumented, in turns.

    python benchmarks/elastic_restart.py --output benchmarks/results/elastic_restart.json
    python benchmarks/elastic_restart.py --rendezvous prefix --rounds 3 --late 1:3

Two gloo ranks run a few steps; rank 1 fails in the first attempt by ``os._exit``, an exception or SIGKILL, in turns.
A run hangs when all ranks have been in ``init_process_group`` for ``--patience`` seconds. ``--late RANK:SECONDS``
delays one rank in every restart, before ``init_process_group``. ``--partial FILE`` keeps the runs so far with their
logs, and with ``--py-spy PATH`` the stacks of hung processes.

Torch alone hangs here, and ``elastic_first_restart.py`` shows what decides. The agent keeps one TCPStore for all
attempts, and the keys do not name the attempt (torch 2.13.0: ``_create_c10d_store``,
``StaticTCPRendezvous.next_rendezvous``, ``DynamicRendezvousHandler.next_rendezvous``).
A restarted rank can read the gloo address of a peer that has died. Gloo then refuses, waits for its timeout of 30
minutes, or joins, depending on which side has to connect. Two rendezvous avoid it: ``prefix`` puts the attempt
into the keys; ``unshared`` gives each attempt its own store (``TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1``). See
https://github.com/pytorch/pytorch/issues/135712.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import finish

BIN = Path(sys.executable).parent
RANKS = 2
#: Seconds for one job; a job that needs longer is no evidence of anything but a slow machine.
DEADLINE = 400
FAILURES = ("exit", "raise", "kill")
PROGRAM = """
import json, os, signal, sys, time
import torch
import torch.distributed as dist

rendezvous, kind, late_rank, late_seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])

def note(event):
    line = json.dumps({"attempt": attempt, "rank": rank, "pid": os.getpid(), "event": event, "time": time.time()})
    with open("events.jsonl", "a") as file:
        file.write(line + "\\n")

note("begun")
if attempt > 0 and rank == late_rank:
    time.sleep(late_seconds)
note("joining")
if rendezvous == "prefix":
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.PrefixStore(f"attempt_{attempt}", dist.TCPStore(address, port, 2, False))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
else:
    dist.init_process_group("gloo")
note("joined")
for step in range(3):
    for _ in range(3):
        dist.all_reduce(torch.ones(8))
    if attempt == 0 and step == 1 and rank == 1:
        note("failing")
        if kind == "exit":
            os._exit(3)
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("this rank fails")
dist.destroy_process_group()
note("completed")
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _rendezvous(kind: str) -> list[str]:
    if kind in ("c10d", "unshared"):
        return ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]
    return ["--master-addr=127.0.0.1", f"--master-port={free_port()}"]


def descendants(pid: int) -> list[int]:
    """Processes below ``pid``; torchrun puts each rank into a session of its own."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def _stop(job: subprocess.Popen[bytes], py_spy: str | None) -> list[str]:
    """Stacks of a hung job's processes, which are killed."""
    processes, stacks = [job.pid, *descendants(job.pid)], []
    for process in processes if py_spy else ():
        command = [str(py_spy), "dump", "--native", "--pid", str(process)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        stacks.append(done.stdout + done.stderr)
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    job.wait()
    return stacks


def _events(directory: Path) -> list[dict[str, Any]]:
    file = directory / "events.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _joins_for(events: list[dict[str, Any]]) -> float:
    """Seconds since the last rank called ``init_process_group`` while none has returned or ended; 0 otherwise."""
    newest = [event for event in events if event["attempt"] == events[-1]["attempt"]]
    last = {event["rank"]: event for event in newest}
    if len(last) < RANKS or any(event["event"] != "joining" or not _runs(event["pid"]) for event in last.values()):
        return 0
    latest: float = max(event["time"] for event in last.values())
    return time.time() - latest


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait(job: subprocess.Popen[bytes], directory: Path, options: argparse.Namespace) -> tuple[str, list[str]]:
    """The job's outcome, and the stacks of its processes where it hung."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = job.wait(0.5)
            return ("recovered" if code == 0 else f"ended with status {code}"), []
        if _joins_for(_events(directory)) > options.patience:
            return "hung", _stop(job, options.py_spy)
    return "deadline", _stop(job, options.py_spy)


def _one_run(instrumented: bool, failure: str, options: argparse.Namespace) -> dict[str, Any]:
    """One job, from its start to its end or to the deadline."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environment.update(assignment.split("=", 1) for assignment in options.set if instrumented)
    if options.rendezvous == "unshared":
        environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    late_rank, late_seconds = options.late.split(":")
    command = [
        *([BIN / "opentelemetry-instrument"] if instrumented else []),
        *(BIN / "torchrun", "--nproc-per-node=2", "--max-restarts=2", *_rendezvous(options.rendezvous)),
        *("program.py", options.rendezvous, failure, late_rank, late_seconds),
    ]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        Path(directory, "program.py").write_text(PROGRAM)
        log = Path(directory, "log")
        started = time.time()
        with log.open("wb") as stream:
            job = subprocess.Popen(command, env=environment, cwd=directory, stdout=stream, stderr=stream)
            outcome, stacks = _wait(job, Path(directory), options)
        seconds, events = time.time() - started, _events(Path(directory))
        attempts = 1 + max((event["attempt"] for event in events), default=0)
        return {
            "mode": "instrumented" if instrumented else "plain",
            "failure": failure,
            "outcome": outcome,
            "seconds": round(seconds, 2),
            "attempts": attempts,
            "events": [{**event, "time": round(event["time"] - started, 3)} for event in events],
            **({} if outcome == "recovered" and attempts == 2 else {"log": log.read_text()[-6000:], "stacks": stacks}),
        }


def _figures(runs: list[dict[str, Any]]) -> dict[str, Any]:
    by_mode = collections.defaultdict(list)
    for run in runs:
        by_mode[run["mode"]].append(run)
    figures: dict[str, Any] = {}
    for mode, members in by_mode.items():
        ended = [run["seconds"] for run in members if run["outcome"] == "recovered"]
        figures[f"runs_{mode}"] = {"value": len(members)}
        figures[f"hangs_{mode}"] = {"value": sum(run["outcome"] == "hung" for run in members)}
        figures[f"deadlines_{mode}"] = {"value": sum(run["outcome"] == "deadline" for run in members)}
        figures[f"recovered_{mode}"] = {"value": len(ended)}
        figures[f"recovered_at_first_restart_{mode}"] = {
            "value": sum(run["outcome"] == "recovered" and run["attempts"] == 2 for run in members)
        }
        figures[f"median_seconds_to_recover_{mode}"] = {
            "value": round(statistics.median(ended), 2) if ended else None,
        }
    return figures


def main() -> int:
    """Run both modes in turns, print and keep the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rendezvous", choices=["static", "prefix", "c10d", "unshared"], default="static")
    parser.add_argument("--rounds", type=int, default=20, help="runs of each mode")
    parser.add_argument("--modes", default="plain,instrumented")
    parser.add_argument("--patience", type=float, default=20, help="seconds of joining that count as a hang")
    parser.add_argument("--late", default="-1:0", metavar="RANK:SECONDS", help="delay of one rank in each restart")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="environment when instrumented"
    )
    parser.add_argument("--py-spy", metavar="PATH", help="keep the stacks of hung ranks")
    parser.add_argument("--partial", type=Path, metavar="FILE", help="keep the runs so far in this file")
    options, _ = parser.parse_known_args()
    runs = []
    for position in range(options.rounds):
        failure = FAILURES[position % len(FAILURES)]
        modes = options.modes.split(",")
        for mode in modes if position % 2 == 0 else reversed(modes):
            run = _one_run(mode == "instrumented", failure, options)
            print(position, run["mode"], failure, run["outcome"], run["attempts"], run["seconds"], file=sys.stderr)
            runs.append(run)
            if options.partial:
                options.partial.write_text(json.dumps(runs))
    # Logs and stacks name paths of this machine.
    samples = [{name: value for name, value in run.items() if name not in ("log", "stacks")} for run in runs]
    return finish("elastic_restart", _figures(runs), samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
