"""When this machine booted and when a process started: together with its pid they name one process for good.

A pid alone does not: the kernel gives it to another process after the end of the first one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

#: Fields of ``/proc/PID/stat`` behind the name of the program, see proc_pid_stat(5).
_STATE = 0
_PARENT = 1
_START_TIME = 19
_MOST_ANCESTORS = 8


class Lifetime(NamedTuple):
    """What names one process among all of the past and present of this machine."""

    boot_id: str
    pid: int
    #: In clock ticks since the boot; 0: not known.
    start_ticks: int
    #: Processes of one namespace see each other's pids; 0: not known.
    pid_namespace: int


def child_lifetime(pid: int) -> Lifetime:
    """Return the lifetime of a child that has not been waited for, even if it has ended."""
    fields = _stat(pid)
    return Lifetime(boot_id(), pid, int(fields[_START_TIME]) if fields else 0, pid_namespace())


def boot_id() -> str:
    """Return the random id of this kernel's boot; empty where it has none (not Linux)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def own() -> Lifetime:
    """Return the lifetime of this process."""
    pid = os.getpid()
    return Lifetime(boot_id(), pid, _start_ticks(pid), pid_namespace())


def own_start_ticks() -> int:
    """Return when this process started, in clock ticks since the boot; 0: not known."""
    return _start_ticks(os.getpid())


def pid_namespace() -> int:
    """Return the number of the pid namespace of this process; 0 where there are none (not Linux)."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def ancestors() -> tuple[int, ...]:
    """Return the pids of the processes above this one in its namespace, the parent first, up to a few."""
    above: list[int] = []
    pid = os.getppid()
    while pid > 1 and len(above) < _MOST_ANCESTORS:
        above.append(pid)
        fields = _stat(pid)
        pid = int(fields[_PARENT]) if fields else 0
    return tuple(above)


def is_alive(lifetime: Lifetime) -> bool | None:
    """Return whether the process runs; None where that cannot be seen from here."""
    if not lifetime.boot_id or not lifetime.start_ticks or lifetime.boot_id != boot_id():
        return None
    if lifetime.pid_namespace != pid_namespace():
        return None
    return _start_ticks(lifetime.pid) == lifetime.start_ticks


def is_stopped(lifetime: Lifetime) -> bool:
    """Return whether the process, which :func:`is_alive` has seen, is stopped by a signal or a debugger."""
    fields = _stat(lifetime.pid)
    return bool(fields) and fields[_STATE] in "Tt"


def _start_ticks(pid: int) -> int:
    """Start time of process ``pid``; 0 where there is none, or only what its parent has not collected (a zombie)."""
    fields = _stat(pid)
    if not fields or fields[_STATE] in "ZX":
        return 0
    return int(fields[_START_TIME])


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` behind the program's name; empty without such a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # The name in parentheses may hold anything, parentheses too.
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > _START_TIME else []
