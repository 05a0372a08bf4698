"""Blocks of an event loop that are found and named, false alarms, and what the watching costs.

    python benchmarks/event_loop_blocks.py [--output FILE]

Real programs under ``opentelemetry-instrument`` (``event_loop_program.py``) with 200 rollouts at once, on asyncio and
on uvloop: blocks of 0.2 to 5 s of seven kinds, and six kinds of healthy work. One more runs beside processes that take
all CPUs. A block is found where one event lies in it and names its function; any other event is a false alarm.

Cost: CPU time of the thread in a program whose loop does nothing, and in one that is at work all the time.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figures import finish

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
BLOCKS = ("search", "tokenize", "fetch", "acquire", "shell", "parse", "refresh")
HEALTHY = ("cooperative", "crowded", "callbacks", "in_a_thread", "busy_thread", "short")
SECONDS = (0.2, 0.5, 1.0, 2.0)
#: Of the first kind also this one.
LONGEST = 5.0
ROLLOUTS = 200
#: Is told, and has no limit.
LOADED = "all CPUs taken"
#: Seconds that clocks and the end of a block may be apart from what the program has written down.
_TOLERANCE = 0.3
_COST = """
import asyncio, sys, threading, time, otel_rl

def of_ours():
    return next(one.native_id for one in threading.enumerate() if one.name == "otel-rl-event-loop")

async def main(how):
    with otel_rl.rollout():
        await asyncio.sleep(0.5)
        clock = (~of_ours() << 3) | 6
        began, end = time.clock_gettime(clock), time.monotonic() + 10
        while time.monotonic() < end:
            await asyncio.sleep(10 if how == "idle" else 0)
        print((time.clock_gettime(clock) - began) / 10)

asyncio.run(main(sys.argv[1]))
"""


def environment(**variables: str) -> dict[str, str]:
    """For a program that writes files."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    settings = {"OTEL_RL_QUIET": "true", "OTEL_RL_RAISE_INTERNAL_ERRORS": "true", "OTEL_RL_RUN_ID": "run"}
    return {**kept, **settings, **variables}


def run(folder: Path, loop: str, cases: list[str], rollouts: int = ROLLOUTS) -> tuple[list[Any], list[Any]]:
    """Run the program; return what it did, and the events of blocks."""
    truth = folder / "truth.jsonl"
    command = [BIN / "opentelemetry-instrument", sys.executable, HERE / "event_loop_program.py"]
    subprocess.run([*command, loop, str(rollouts), truth, *cases], cwd=folder, env=environment(), check=True)
    return [json.loads(line) for line in truth.read_text().splitlines()], events(folder)


def events(folder: Path) -> list[dict[str, Any]]:
    """Return the events of blocks of the run in ``folder``, in order, each with its time and its body."""
    found = []
    for file in folder.glob("otel-rl/run/*/logs*.jsonl"):
        for line in file.read_text().splitlines():
            for resource in json.loads(line)["resourceLogs"]:
                for scope in resource["scopeLogs"]:
                    found += [_event(one) for one in scope["logRecords"] if one.get("eventName") == _NAME]
    return sorted(found, key=lambda event: event["time"])


_NAME = "rl.event_loop.blocked"


def _event(record: dict[str, Any]) -> dict[str, Any]:
    values = {
        one["key"].removeprefix(f"{_NAME}.").removeprefix("rl.event_loop."): next(iter(one["value"].values()))
        for one in record["attributes"]
    }
    return {**values, "time": int(record["timeUnixNano"]) / 1e9, "body": record["body"]["stringValue"]}


def judge(truth: list[Any], events: list[Any]) -> list[dict[str, Any]]:
    """One row for each case: how many events name its function, and how many lie in it that do not."""
    rows, left = [], [event for event in events if not event.get("ongoing")]
    for case in truth:
        inside = [event for event in left if case["began"] < event["time"] < case["ended"] + _TOLERANCE]
        left = [event for event in left if event not in inside]
        right = [event for event in inside if event.get("code.function.name") == case["case"] in BLOCKS]
        rows.append(
            {
                "case": case["case"],
                "seconds": case["seconds"],
                "took": round(case["ended"] - case["began"], 3),
                "told": round(sum(event["duration"] for event in right), 3),
                "found": min(len(right), 1),
                "false": len(inside) - min(len(right), 1),
                "named": [event.get("code.function.name", "") for event in inside],
            }
        )
    if left:
        named = [event.get("code.function.name", "") for event in left]
        outside = {"case": "", "seconds": 0.0, "took": 0.0, "told": 0.0, "found": 0, "false": len(left)}
        rows.append({**outside, "named": named})
    return rows


def f1(rows: list[dict[str, Any]]) -> float:
    """Of finding and naming."""
    found, false = sum(row["found"] for row in rows), sum(row["false"] for row in rows)
    missed = sum(row["case"] in BLOCKS for row in rows) - found
    return 2 * found / max(2 * found + false + missed, 1)


@contextmanager
def loaded(processes: int) -> Iterator[None]:
    """So many processes that compute."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def _program(loop: str, cases: list[str], processes: int = 0) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder, loaded(processes):
        return judge(*run(Path(folder), loop, cases))


def _cost(how: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [BIN / "opentelemetry-instrument", sys.executable, "-c", _COST, how]
        done = subprocess.run(command, env=environment(), cwd=folder, capture_output=True, text=True, check=True)
        return float(done.stdout)


def main() -> int:
    """Measure, print, and compare with the limits."""
    cases = [f"{case}:{seconds}" for case in BLOCKS for seconds in SECONDS] + [f"{BLOCKS[0]}:{LONGEST}"]
    cases += [f"{case}:1.5" for case in HEALTHY]
    random.Random(0).shuffle(cases)  # noqa: S311 - repeatable on purpose
    healthy = [f"{case}:1.5" for case in HEALTHY]
    samples = {
        "asyncio": _program("asyncio", cases),
        "uvloop": _program("uvloop", cases),
        LOADED: _program("asyncio", healthy + cases[: len(cases) // 3], 2 * (os.cpu_count() or 1)),
    }
    figures: dict[str, Any] = {}
    for name, rows in samples.items():
        limit = {} if name == LOADED else {"at_least": 0.95}
        figures[f"{name}: F1"] = {"value": round(f1(rows), 4), **limit}
        figures[f"{name}: false alarms"] = {"value": sum(row["false"] for row in rows)}
        figures[f"{name}: blocks"] = {"value": sum(row["case"] in BLOCKS for row in rows)}
        figures[f"{name}: blocks found and named"] = {"value": sum(row["found"] for row in rows)}
    for how in ("idle", "at work"):
        figures[f"{how} loop: share of a core"] = {"value": round(_cost(how), 5), "limit": 0.01}
    return finish("event_loop_blocks", figures, samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
