"""CPU time and memory of this process and of its node, from ``/proc``; where that is missing, nothing."""

from __future__ import annotations

import os
from pathlib import Path

from otel_rl.semconv.attributes import CpuModeValues as Mode
from otel_rl.semconv.attributes import SystemMemoryStateValues as State

PROC = Path("/proc")
_KIB = 1024
#: Columns of the first line of ``/proc/stat``, see proc_stat(5): the time of guests is in that of users already.
_MODES = {Mode.USER: (1, 2), Mode.SYSTEM: (3, 6, 7), Mode.IDLE: (4,), Mode.IOWAIT: (5,), Mode.STEAL: (8,)}


def process_cpu() -> dict[str, float]:
    """CPU seconds of this process by mode."""
    spent = os.times()
    return {Mode.USER: spent.user, Mode.SYSTEM: spent.system}


def process_memory(proc: Path = PROC) -> tuple[int, int] | None:
    """Bytes of physical and of virtual memory of this process."""
    pages = _words(proc / "self/statm")
    if len(pages) < 2:  # noqa: PLR2004 - both
        return None
    size = os.sysconf("SC_PAGE_SIZE")
    return int(pages[1]) * size, int(pages[0]) * size


def process_threads(proc: Path = PROC) -> int | None:
    """Threads of this process, those of libraries in C included."""
    return _entries(proc / "self/task")


def process_descriptors(proc: Path = PROC) -> int | None:
    """Open file descriptors of this process."""
    return _entries(proc / "self/fd")


def node_cpu(proc: Path = PROC) -> dict[str, float]:
    """CPU seconds of all processors of the node by mode, since it was started."""
    columns = _words(proc / "stat")
    if not columns or columns[0] != b"cpu":
        return {}
    ticks = os.sysconf("SC_CLK_TCK")
    return {
        mode: sum(int(columns[place]) for place in places if place < len(columns)) / ticks
        for mode, places in _MODES.items()
    }


def node_memory(proc: Path = PROC) -> tuple[int, dict[str, int]] | None:
    """Return the bytes that the node has, and how many are in each state, as ``free`` counts them."""
    try:
        lines = (proc / "meminfo").read_bytes().splitlines()
        sizes = {name: int(value.split()[0]) * _KIB for name, _, value in (line.partition(b":") for line in lines)}
        total, free = sizes[b"MemTotal"], sizes[b"MemFree"]
    except (OSError, ValueError, KeyError, IndexError):
        return None
    buffers, cached = sizes.get(b"Buffers", 0), sizes.get(b"Cached", 0) + sizes.get(b"SReclaimable", 0)
    used = max(total - free - buffers - cached, 0)
    return total, {State.USED: used, State.FREE: free, State.BUFFERS: buffers, State.CACHED: cached}


def _words(path: Path) -> list[bytes]:
    """Words of the first line. As bytes: a process that has changed its root cannot load an encoding any more."""
    try:
        with path.open("rb") as lines:
            return lines.readline().split()
    except OSError:
        return []


def _entries(path: Path) -> int | None:
    try:
        return len(os.listdir(path))  # noqa: PTH208 - counted, no path is needed
    except OSError:
        return None
