"""Start programs in the background, remember them on disk, and stop exactly those later."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

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


def stop(processes: list[Started], tell: Callable[[str], None] = lambda _: None) -> None:
    """Stop the processes: ask them all, then end those that have not gone after 20 s; ``tell`` what is waited for."""
    if processes:
        tell(f"stopping {_names(processes)} ({STOP_SECONDS:.0f} s at most)")
    left = _signal_and_wait(processes, signal.SIGTERM, tell)
    if left:
        tell(f"{_names(left)} did not end within {STOP_SECONDS:.0f} s; killing")
        _signal_and_wait(left, signal.SIGKILL, tell)
    for process in processes:
        _reap(process.pid)


def _signal_and_wait(processes: list[Started], kind: signal.Signals, tell: Callable[[str], None]) -> list[Started]:
    """Send ``kind`` to all that run; return those that still do after ``STOP_SECONDS``."""
    left = [process for process in processes if process.running]
    for process in left:
        _send(process.pid, kind)
    deadline = time.monotonic() + STOP_SECONDS
    while left and time.monotonic() <= deadline:
        time.sleep(0.05)
        still = [process for process in left if process.running]
        if still and len(still) < len(left):
            tell(f"waiting for {_names(still)}")
        left = still
    return left


def _names(processes: list[Started]) -> str:
    return ", ".join(process.name for process in processes)


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
