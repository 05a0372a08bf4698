"""An asyncio program with many rollouts at once, and code that blocks its loop where it is told to.

    python benchmarks/event_loop_program.py asyncio|uvloop ROLLOUTS TRUTH CASE:SECONDS ...

A case is a function below: one of ``BLOCKS``, which blocks for so many seconds, or one of ``HEALTHY``, which keeps the
loop busy for as long and blocks nothing. The file TRUTH gets one line of JSON for each: case, beginning, end, and the
CPU time of the loop's thread in between.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import otel_rl

#: Seconds between two cases.
PAUSE = 0.3


def search(seconds: float) -> None:
    """Wait, as a tool does."""
    time.sleep(seconds)


def tokenize(seconds: float) -> None:
    """Python code that computes for so long, in CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))


def fetch(seconds: float) -> None:
    """Wait for a socket that answers late."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        threading.Timer(seconds, theirs.sendall, (b"answer",)).start()
        ours.recv(16)


def acquire(seconds: float) -> None:
    """Wait for a lock of another thread."""
    released = threading.Event()
    threading.Timer(seconds, released.set).start()
    released.wait()


def shell(seconds: float) -> None:
    """Wait for a process."""
    subprocess.run(["sleep", str(seconds)], check=True)


def parse(seconds: float) -> None:
    """C code that holds the GIL: the other threads of the process stand still too."""
    length = _parse_length(seconds)
    re.match(r"(a+)+b", "a" * length)


def refresh(seconds: float) -> None:
    """Block in a plain callback; no task runs."""
    time.sleep(seconds)


async def cooperative(seconds: float) -> None:
    """Compute in pieces of 5 ms."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        tokenize(0.005)
        await asyncio.sleep(0)


async def crowded(seconds: float) -> None:
    """Many tasks that are ready at once: one turn of the loop takes so long, and no task more than 2 ms."""
    await asyncio.gather(*[_briefly() for _ in range(int(seconds / 0.002))])


async def callbacks(seconds: float) -> None:
    """Do the same with plain callbacks."""
    loop = asyncio.get_running_loop()
    for _ in range(int(seconds / 0.002)):
        loop.call_soon(tokenize, 0.002)
    await asyncio.sleep(0)


async def in_a_thread(seconds: float) -> None:
    """Run the same tool as above, where it belongs."""
    await asyncio.to_thread(search, seconds)


async def busy_thread(seconds: float) -> None:
    """Another thread computes; the two share the GIL."""
    await asyncio.to_thread(tokenize, seconds)


async def short(seconds: float) -> None:
    """Tools that wait for less than the limit."""
    for _ in range(int(seconds / 0.1)):
        search(0.1)
        await asyncio.sleep(0.01)


BLOCKS = {one.__name__: one for one in (search, tokenize, fetch, acquire, shell, parse, refresh)}
HEALTHY = {one.__name__: one for one in (cooperative, crowded, callbacks, in_a_thread, busy_thread, short)}
_lengths: dict[float, int] = {}


async def _briefly() -> None:
    await asyncio.sleep(0)
    tokenize(0.002)


def _parse_length(seconds: float) -> int:
    """Letters for which :func:`parse` takes at least ``seconds``; each one more doubles that."""
    if seconds not in _lengths:
        length, took = 16, 0.0
        while took < 0.6 * seconds:
            length += 1
            began = time.thread_time()
            re.match(r"(a+)+b", "a" * length)
            took = time.thread_time() - began
        _lengths[seconds] = length + 1
    return _lengths[seconds]


async def _rollout(number: int, over: asyncio.Event) -> None:
    with otel_rl.rollout(rollout_id=str(number)):
        while not over.is_set():
            await asyncio.sleep(0.05 + number % 7 / 100)
            tokenize(0.0002)


async def _run(case: str, seconds: float) -> None:
    if case in HEALTHY:
        await HEALTHY[case](seconds)
    elif case == "refresh":
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: (refresh(seconds), done.set_result(None)))
        await done
    else:
        with otel_rl.rollout(rollout_id=case):
            await asyncio.sleep(0)
            BLOCKS[case](seconds)


async def main(rollouts: int, truth: Path, cases: list[tuple[str, float]]) -> None:
    """Run the cases one after the other beside the rollouts."""
    over = asyncio.Event()
    others = [asyncio.create_task(_rollout(number, over)) for number in range(rollouts)]
    with truth.open("w") as file:
        for case, seconds in cases:
            await asyncio.sleep(PAUSE)
            began, computed = time.time(), time.thread_time()
            await _run(case, seconds)
            times = {"began": began, "ended": time.time(), "computed": time.thread_time() - computed}
            print(json.dumps({"case": case, "seconds": seconds, **times}), file=file)
    await asyncio.sleep(PAUSE)
    over.set()
    await asyncio.gather(*others)


if __name__ == "__main__":
    given = [(case, float(seconds)) for case, _, seconds in (one.partition(":") for one in sys.argv[4:])]
    for name, duration in given:
        if name == "parse":
            _parse_length(duration)
    if sys.argv[1] == "uvloop":
        import uvloop as runner
    else:
        runner = asyncio  # type: ignore[assignment]
    runner.run(main(int(sys.argv[2]), Path(sys.argv[3]), given))
