"""CPU time of the threads of our own, measured by their clocks.

They are found by their names, which all begin with ``otel-rl``. Threads that a library starts for an exporter, as gRPC
does, have other names and are not counted.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

PREFIX = "otel-rl"

clock = time.clock_gettime_ns

#: Kernel id of a thread -> ns of it at the last look; of one that has ended, up to then.
_seen: dict[int, int] = {}


def find() -> None:
    """Look for threads that have begun. Not for the program's threads: it takes a lock of ``threading``."""
    for thread in threading.enumerate():
        if thread.name.startswith(PREFIX) and thread.native_id is not None:
            _seen.setdefault(thread.native_id, 0)


def nanoseconds() -> int:
    """Sum over all threads found, each since it began."""
    for native in list(_seen):
        # Of a thread that has ended this is an error, where pthread_getcpuclockid() may crash.
        with suppress(OSError):
            _seen[native] = max(clock(_clock_of(native)), _seen[native])
    return sum(_seen.values())


def _clock_of(native: int) -> int:
    """The CPU clock of a thread by its kernel id, see ``CPUCLOCK_PERTHREAD_MASK`` in Linux."""
    return (~native << 3) | 6


def reset() -> None:
    """A forked child has none of its parent's threads."""
    _seen.clear()
