"""Real programs: when the watchdog's thread runs, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(sys.executable).parent
PROGRAM = """
import os, sys, threading, otel_rl

def watched():
    return any(thread.name == "otel-rl-watchdog" for thread in threading.enumerate())

otel_rl.event("e")
otel_rl.flush(10)
print(watched())
with otel_rl.step(1):
    pass
while not watched():
    pass
child = os.fork()
if child == 0:
    print(watched())
    with otel_rl.step(1):
        pass
    while not watched():
        pass
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
#: Another thread trains and hangs, the main thread ends the program by the signal that it waits for.
ENDING = """
import signal, threading, time, otel_rl
def train():
    for number in range(1, 7):
        with otel_rl.step(number):
            if number == 6:
                time.sleep(1000)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
threading.Thread(target=train, daemon=True).start()
signal.sigwait([signal.SIGUSR1])
print("over")
"""


def _environment(**variables: str) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**environ, "OTEL_RL_QUIET": "true", **variables}


def test_the_thread_begins_with_the_first_step_and_a_forked_child_gets_its_own_with_its_first_step(tmp_path):
    done = subprocess.run(
        [SCRIPTS / "opentelemetry-instrument", sys.executable, "-u", "-W", "ignore", "-c", PROGRAM],
        cwd=tmp_path,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("False\nFalse\n3\n", "", 0)


def test_a_hang_in_a_thread_is_reported_and_the_process_ends_as_without_a_watchdog(tmp_path):
    process = subprocess.Popen(
        [SCRIPTS / "opentelemetry-instrument", sys.executable, "-c", ENDING],
        cwd=tmp_path,
        env=_environment(OTEL_RL_HANG_SECONDS="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    process.send_signal(signal.SIGUSR1)
    out, err = process.communicate(timeout=300)
    assert "may hang: no progress for 1 s in step 6" in line
    assert (out, err, process.returncode) == ("over\n", "", 0)
