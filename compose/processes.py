"""Start programs in the background, remember them on disk, and stop exactly those later."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Started:
    """A process that was started: its id alone is not enough, since the system gives ids away again."""

    name: str
    pid: int
    start_time: str

    @property
    def running(self) -> bool:
        """Whether this very process (not a later one with the same id) still runs."""
        return start_time_of(self.pid) == self.start_time


def start_time_of(pid: int) -> str | None:
    """Return when the process was started, in the system's own words, or None when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return _start_time_by_ps(pid) if not Path("/proc/self").exists() else None
    state, start_time = fields[0], fields[19]  # fields 3 and 22 of proc(5)
    return None if state in "ZX" else start_time


def _start_time_by_ps(pid: int) -> str | None:
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def start(name: str, command: list[str], log: Path, folder: Path, environment: dict[str, str]) -> Started:
    """Start a program in a session of its own, so that it outlives this one, with its output in the file `log`."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return Started(name, process.pid, start_time_of(process.pid) or "")


def stop(processes: list[Started]) -> None:
    """Stop the processes: ask them all, then end those that have not gone after 20 s."""
    for kind, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        for process in processes:
            if process.running:
                _send(process.pid, kind)
        deadline = time.monotonic() + seconds
        while any(process.running for process in processes):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            break
    for process in processes:
        _reap(process.pid)


def _send(pid: int, kind: signal.Signals) -> None:
    try:
        os.kill(pid, kind)
    except ProcessLookupError:
        return


def _reap(pid: int) -> None:
    """Collect the exit code where the process is a child of this one."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
