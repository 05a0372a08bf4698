"""Real asyncio programs: what blocks is named, healthy ones are left alone, and the host's loops stay as they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import event_loop_blocks
import pytest
from event_loop_blocks import environment, events

SCRIPTS = Path(sys.executable).parent
TIMEOUT = 300
#: A program with many rollouts at once, of which the benchmark of the same name measures how well its blocks are found.
PROGRAM = Path(event_loop_blocks.__file__).with_name("event_loop_program.py")
#: The limit in s: a busy machine does not keep a loop from running for so long.
LIMIT = "1"
#: What blocks the loop, and what keeps it as busy without blocking it, each with its seconds. Waiting costs no CPU.
CASES = {
    "asyncio": [
        "search:2.5",
        "tokenize:1.5",
        "crowded:1.5",
        "fetch:2.5",
        "in_a_thread:2.5",
        "acquire:2.5",
        "shell:2.5",
    ],
    "uvloop": ["search:2.5", "callbacks:1.5", "in_a_thread:2.5", "refresh:2.5"],
}
#: Loops that are opened and closed, in several threads and below each other; run in the debug mode of Python.
HOSTS = """
import asyncio, os, sys, threading, time, warnings, otel_rl

async def rollout(seconds):
    with otel_rl.rollout():
        await asyncio.sleep(seconds)
        assert asyncio.all_tasks() == {asyncio.current_task()}, asyncio.all_tasks()
        assert asyncio.get_running_loop().get_debug()
    return asyncio.get_running_loop()

for _ in range(20):
    assert asyncio.run(rollout(0.01)).is_closed()
threads = [threading.Thread(target=asyncio.run, args=(rollout(0.2),)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

async def cancelled():
    with otel_rl.rollout():
        time.sleep(0.3)
        raise asyncio.CancelledError

try:
    asyncio.run(cancelled())
except asyncio.CancelledError:
    print("cancelled")

class Clock(asyncio.SelectorEventLoop):
    # A test's loop that never waits: its time jumps to the next timer.
    now = 0.0

    def time(self):
        return self.now

    def _run_once(self):
        if not self._ready and self._scheduled:
            self.now = max(self.now, self._scheduled[0].when())
        super()._run_once()

async def jumps():
    with otel_rl.rollout():
        for _ in range(500):
            await asyncio.sleep(3600)

loop = Clock()
began = time.monotonic()
loop.run_until_complete(jumps())
assert loop.time() == 500 * 3600
assert loop._scheduled == [], loop._scheduled
loop.close()
print("over")
"""
#: A child that is forked within a coroutine has a loop of its own, and blocks it.
FORK = """
import asyncio, os, sys, time, otel_rl

def in_the_child():
    time.sleep(2.5)

async def blocks():
    with otel_rl.rollout():
        await asyncio.sleep(0)
        in_the_child()
        await asyncio.sleep(0.1)

async def main():
    with otel_rl.rollout():
        await asyncio.sleep(0.3)
        child = os.fork()
        if child == 0:
            asyncio.run(blocks())
            sys.exit(0)
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            await asyncio.sleep(0.1)

asyncio.run(main())
"""
#: Runs until it is told to end.
WAITS = """
import asyncio, pathlib, time, otel_rl

async def rollout(over):
    with otel_rl.rollout():
        while not over.exists():
            await asyncio.sleep(0.01)
            sum(range(20_000))

async def main():
    await asyncio.gather(*[rollout(pathlib.Path("over")) for _ in range(20)])

pathlib.Path("ready").touch()
asyncio.run(main())
"""


def _start(folder: Path, program: str, *options: str, **variables: str) -> subprocess.Popen[str]:
    command = [SCRIPTS / "opentelemetry-instrument", sys.executable, *options, "-c", program]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment(**variables), stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("loop", CASES)
def test_blocks_are_named_in_their_order_and_healthy_work_is_left_alone(tmp_path: Path, loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    command = [SCRIPTS / "opentelemetry-instrument", sys.executable, PROGRAM, loop, "10", tmp_path / "truth"]
    environ = environment(OTEL_RL_EVENT_LOOP_SECONDS=LIMIT)
    subprocess.run([*command, *CASES[loop]], cwd=tmp_path, env=environ, check=True, timeout=TIMEOUT)

    cases = [case.partition(":")[0] for case in CASES[loop]]
    told = [event["code.function.name"] for event in events(tmp_path) if not event.get("ongoing")]
    assert told == [case for case in cases if case in event_loop_blocks.BLOCKS]


def test_loops_of_all_kinds_stay_as_they_are_in_the_debug_mode_of_python(tmp_path: Path) -> None:
    process = _start(tmp_path, HOSTS, "-X", "dev", "-W", "error")
    out, err = process.communicate(timeout=TIMEOUT)
    # asyncio itself tells of slow callbacks in its debug mode.
    lines = [line for line in err.splitlines() if not line.startswith("Executing ")]
    assert (out, lines, process.returncode) == ("cancelled\nover\n", [], 0)


def test_a_child_that_is_forked_within_a_coroutine_tells_of_its_own_blocks(tmp_path: Path) -> None:
    process = _start(tmp_path, FORK, "-W", "ignore", OTEL_RL_EVENT_LOOP_SECONDS=LIMIT)
    _, err = process.communicate(timeout=TIMEOUT)
    assert (err, process.returncode) == ("", 0)
    assert [event["code.function.name"] for event in events(tmp_path)] == ["in_the_child"]


def test_a_stopped_process_blocks_nothing(tmp_path: Path) -> None:
    process = _start(tmp_path, WAITS, OTEL_RL_EVENT_LOOP_SECONDS=LIMIT)
    try:
        _await(tmp_path / "ready")
        for _ in range(3):
            time.sleep(0.3)
            process.send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            process.send_signal(signal.SIGCONT)
        (tmp_path / "over").touch()
        _, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert (err, process.returncode) == ("", 0)
    assert events(tmp_path) == []


@pytest.mark.parametrize(("value", "threads"), [("off", 0), ("0.1", 1)])
def test_the_thread_begins_with_the_first_operation_in_a_loop_unless_it_is_switched_off(
    tmp_path: Path, value: str, threads: int
) -> None:
    program = (
        "import asyncio, threading, otel_rl\n"
        "def watchers(): return [one for one in threading.enumerate() if one.name == 'otel-rl-event-loop']\n"
        "with otel_rl.rollout(): pass\n"
        "async def without(): await asyncio.sleep(0.2); print(len(watchers()))\n"
        "asyncio.run(without())\n"
        "async def main():\n"
        "    with otel_rl.rollout(): await asyncio.sleep(0.2)\n"
        "    print(len(watchers()))\n"
        "asyncio.run(main())\n"
    )
    process = _start(tmp_path, program, OTEL_RL_EVENT_LOOP_SECONDS=value)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (out, err, process.returncode) == (f"0\n{threads}\n", "", 0)


def test_a_program_that_is_interrupted_while_it_is_blocked_tells_of_it(tmp_path: Path) -> None:
    program = (
        "import asyncio, pathlib, signal, threading, time, otel_rl\n"
        # A shell starts its background jobs with SIGINT ignored, and so this test maybe.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def watches(task):\n"
        "    for _ in range(40): time.sleep(0.025)\n"
        "    pathlib.Path('blocked').touch()\n"
        "    while not task.cancelling(): time.sleep(0.025)\n"
        "    pathlib.Path('cancelled').touch()\n"
        "def hangs():\n"
        "    threading.Thread(target=watches, args=(asyncio.current_task(),), daemon=True).start()\n"
        "    time.sleep(1000)\n"
        "async def main():\n"
        "    with otel_rl.rollout(): hangs()\n"
        "asyncio.run(main())\n"
    )
    process = _start(tmp_path, program)
    try:
        # A thread like the one that looks at the loop has had its turn many times.
        _await(tmp_path / "blocked")
        os.kill(process.pid, signal.SIGINT)
        # The first one only cancels the task. The second one at the same moment would be the same.
        _await(tmp_path / "cancelled")
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT
    assert [event["code.function.name"] for event in events(tmp_path)] == ["hangs"]


def _await(path: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
