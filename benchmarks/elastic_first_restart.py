"""Why the first restart of a job hangs: its outcome by what of ours is on, and what the ports say of it.

    python benchmarks/elastic_first_restart.py --minutes 25 --output benchmarks/results/elastic_first_restart.json

Two gloo ranks; rank 1 fails, torchrun starts both again, and the job is stopped once the outcome is known. The arms
take turns in random order. ``plain_delayed`` sleeps before ``init_process_group`` as long as we delay a start.

The rank that joins first reads the address which the other one left in the store in the attempt before. Gloo lets the
higher address connect (``Pair::connect`` in ``gloo/transport/tcp/pair.cc``); it compares the bytes of the port in the
order of the network. So three random ports decide: see :func:`expected`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from elastic_restart import BIN, FAILURES, RANKS, descendants, free_port
from figures import finish

#: Seconds of joining that count as a hang, and seconds for one job.
PATIENCE, DEADLINE = 10, 120
#: Ranks that join within this time may read each other's new address.
TOGETHER = 0.02
#: Arm -> environment of an instrumented job; None is a plain one.
ARMS: dict[str, dict[str, str] | None] = {
    "plain": None,
    "plain_delayed": None,
    "instrumented": {},
    "collectives_off": {"OTEL_RL_COLLECTIVES": "off"},
    "torch_off": {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "otel_rl_torch_distributed"},
    "sdk_disabled": {"OTEL_SDK_DISABLED": "true"},
}
DELAY = {"plain_delayed": 0.5}
PROGRAM = """
import json, os, signal, sys, threading, time
import torch
import torch.distributed as dist

kind, delay = sys.argv[1], float(sys.argv[2])
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])

def note(event, **more):
    line = {"attempt": attempt, "rank": rank, "event": event, "time": time.time(), **more}
    with open("events.jsonl", "a") as file:
        file.write(json.dumps(line) + "\\n")

def listening():
    sockets = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            sockets.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            pass
    rows = (line.split() for line in open("/proc/self/net/tcp").read().splitlines()[1:])
    return [int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]

def watch():
    while not listening():
        time.sleep(0.005)
    note("listens", port=listening()[0])

threading.Thread(target=watch, daemon=True).start()
time.sleep(delay)
note("joining")
dist.init_process_group("gloo")
note("joined")
dist.all_reduce(torch.ones(8))
if attempt == 0 and rank == 1:
    time.sleep(0.2)
    if kind == "exit":
        os._exit(3)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError("this rank fails")
dist.all_reduce(torch.ones(8))
note("completed")
time.sleep(DEADLINE)
""".replace("DEADLINE", str(DEADLINE))


def _outcome(events: list[dict[str, Any]]) -> str | None:
    """The outcome of the first restart, as soon as it is known."""
    if any(event["attempt"] > 1 for event in events):
        return "refused"
    times = collections.defaultdict(list)
    for event in events:
        if event["attempt"] == 1:
            times[event["event"]].append(event["time"])
    if len(times["completed"]) == RANKS:
        return "recovered"
    waited = time.time() - max(times["joining"], default=time.time())
    return "hung" if len(times["joining"]) == RANKS and waited > PATIENCE and not times["joined"] else None


def expected(events: list[dict[str, Any]]) -> str | None:
    """What the ports say: ``refused``, ``hung`` or ``recovered``; None where one is not known or the ranks met.

    The early rank compares its port with the old one of the late rank. If its own is higher it connects to a peer that
    has gone. Else it listens, and the late rank connects if its own is higher, and listens for ever if not.
    """
    joined = {event["rank"]: event["time"] for event in events if (event["attempt"], event["event"]) == (1, "joining")}
    ports = {(event["attempt"], event["rank"]): event["port"] for event in events if event["event"] == "listens"}
    if len(joined) < RANKS or abs(joined[0] - joined[1]) < TOGETHER:
        return None
    early, late = sorted(joined, key=lambda rank: joined[rank])
    try:
        left, mine, other = (_in_network_order(ports[key]) for key in ((0, late), (1, early), (1, late)))
    except KeyError:
        return None
    if mine > left:
        return "refused"
    return "recovered" if other > mine else "hung"


def _in_network_order(port: int) -> int:
    return int.from_bytes(port.to_bytes(2, "big"), "little")


def _events(directory: str) -> list[dict[str, Any]]:
    file = Path(directory, "events.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _one_job(arm: str, failure: str) -> dict[str, Any]:
    ours = ARMS[arm]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | (ours or {})
    command = [
        *([] if ours is None else [BIN / "opentelemetry-instrument"]),
        *(BIN / "torchrun", "--nproc-per-node=2", "--max-restarts=2", "--master-addr=127.0.0.1"),
        *(f"--master-port={free_port()}", "program.py", failure, str(DELAY.get(arm, 0))),
    ]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        Path(directory, "program.py").write_text(PROGRAM)
        started, outcome = time.monotonic(), None
        job = subprocess.Popen(
            command, env=environment, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while outcome is None and job.poll() is None and time.monotonic() - started < DEADLINE:
            time.sleep(0.25)
            outcome = _outcome(_events(directory))
        for process in [job.pid, *descendants(job.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        job.wait()
        events = _events(directory)
    return {"arm": arm, "failure": failure, "outcome": outcome or "unknown", "expected": expected(events)}


def _figures(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    figures: dict[str, int] = {}
    for arm in ARMS:
        counts = collections.Counter(job["outcome"] for job in jobs if job["arm"] == arm)
        figures |= {f"{outcome}_{arm}": counts[outcome] for outcome in ("recovered", "refused", "hung", "unknown")}
    told = [job for job in jobs if job["expected"] and job["outcome"] != "unknown"]
    figures |= {"told_by_ports": len(told), "as_told": sum(job["outcome"] == job["expected"] for job in told)}
    return {name: {"value": value} for name, value in figures.items()}


def main() -> int:
    """Run jobs until the time is over, print and keep the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=25)
    options, _ = parser.parse_known_args()
    end, jobs, turn = time.monotonic() + 60 * options.minutes, [], 0
    while time.monotonic() < end:
        for arm in random.sample(list(ARMS), len(ARMS)):
            jobs.append(_one_job(arm, FAILURES[turn % len(FAILURES)]))
            print(jobs[-1], file=sys.stderr, flush=True)
        turn += 1
    return finish("elastic_first_restart", _figures(jobs), jobs, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
