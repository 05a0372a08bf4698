"""Time of a thread in which its code could not run: the process was stopped, or others had the CPU.

Such time is no fault of the code. Linux writes to ``schedstat`` how long a thread has waited for a CPU. Where a kernel
is built without it, the switches that the thread did not ask for stand in for it.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from contextlib import suppress
from typing import NamedTuple

from otel_rl.core import proc_files

#: Intervals that count of a stretch at most: half of a block. A thread that wakes a little late is no sign of anything.
_LATE = 4
#: Less than this share of a stretch is no computing.
_LITTLE = 0.1
#: Of Linux.
_THREAD = getattr(resource, "RUSAGE_THREAD", None)
#: Times that a thread gives up the CPU because ours wants the GIL, in one stretch.
_FOR_A_LOOK = 2
# Thresholds that distinguish a call which holds the GIL from a process that was stopped. On an overloaded machine both
# shares are small.
#: Least share of the stretch in which the loop's thread computed.
_LEAST_COMPUTED = 0.1
#: Least share of the possible times at which our thread asked for the GIL.
_LEAST_ASKED = 0.02
#: Fewest times that it asked.
_FEWEST_ASKED = 4


class ThreadInterval(NamedTuple):
    """The time between two looks."""

    #: Seconds that count: without those in which the process was stopped.
    seconds: float
    #: Seconds of CPU time of the loop's thread.
    computed: float
    #: Our thread was kept from running all the while by a call in the loop's thread that holds the GIL.
    held_gil: bool


class ThreadTime:
    """CPU time, and time without a CPU, of the thread that makes one."""

    def __init__(self) -> None:
        self._native = _native_id()
        # See ``CPUCLOCK_PERTHREAD_MASK`` in Linux.
        self._clock = (~self._native << 3) | 6
        self._schedule = f"/proc/self/task/{self._native}/schedstat"
        self._status = f"/proc/self/task/{self._native}/status"
        self._has_schedule = os.path.exists(self._schedule)  # noqa: PTH110 - no object needed
        self._computed = self.read_clock()
        self._waited, self._switches = 0.0, (0, 0, False)

    def read_clock(self) -> float:
        """Return the seconds of CPU time; those of the last look where the thread has ended."""
        with suppress(OSError):
            return time.clock_gettime_ns(self._clock) / 1e9
        return getattr(self, "_computed", 0.0)

    def stretch(self, passed: float, interval: float, gil_waits: int) -> ThreadInterval:
        """Judge the ``passed`` seconds since the last look; looks are ``interval`` seconds apart if nothing is wrong.

        ``gil_waits``: how often our thread gave up the CPU meanwhile.
        """
        before, self._computed = self._computed, self.read_clock()
        computed = min(max(self._computed - before, 0.0), passed)
        if passed <= _LATE * interval:
            return ThreadInterval(passed, computed, held_gil=False)
        # A thread that waits for the GIL wakes at each switch interval; one that is stopped, or has no CPU, does not.
        asks = passed / max(sys.getswitchinterval(), 1e-3)
        if computed >= _LEAST_COMPUTED * passed and gil_waits >= max(_LEAST_ASKED * asks, _FEWEST_ASKED):
            return ThreadInterval(computed, computed, held_gil=True)
        return ThreadInterval(_LATE * interval, min(computed, _LATE * interval), held_gil=False)

    def begin(self) -> None:
        """Prepare for :meth:`without_cpu` at each look from now on."""
        self._waited, self._switches = self._read_schedule(), self._read_switches()

    def without_cpu(self, stretch: ThreadInterval) -> float:
        """Return the seconds of ``stretch`` in which the thread was ready to run and others had the CPU."""
        left = max(stretch.seconds - stretch.computed, 0.0)
        if self._has_schedule:
            before, self._waited = self._waited, self._read_schedule()
            return min(max(self._waited - before, 0.0), left)
        earlier, self._switches = self._switches, self._read_switches()
        given_up, taken = (now - then for now, then in zip(self._switches[:2], earlier, strict=False))
        # It computes, and the CPU was taken from it; it gives it up itself where it waits, and for each look of ours.
        was_taken = taken > 0 and given_up <= taken + _FOR_A_LOOK and stretch.computed >= _LITTLE * stretch.seconds
        if was_taken:
            return left
        was_ready, is_ready = earlier[2], self._switches[2]
        # Since when it is ready is not known, where it was not at the last look.
        return left * (was_ready + is_ready) / 2 if is_ready else 0.0

    def _read_schedule(self) -> float:
        with suppress(OSError, ValueError, IndexError):
            return int(proc_files.read(self._schedule).split()[1]) / 1e9
        return 0.0

    def _read_switches(self) -> tuple[int, int, bool]:
        """Return how often it gave up the CPU, how often it lost it, and whether it is ready to run."""
        if not self._has_schedule:
            with suppress(OSError, ValueError):
                status = proc_files.read(self._status)
                voluntary, others = status.split()[-3::2]
                return int(voluntary), int(others), b"\nState:\tR" in status
        return 0, 0, False


def _native_id() -> int:
    import threading  # noqa: PLC0415 - the name is looked up late: gevent replaces the module's parts

    return threading.get_native_id()


def given_up() -> int:
    """Return how often the calling thread has given up the CPU by itself; 0 where the system does not count it."""
    return resource.getrusage(_THREAD).ru_nvcsw if _THREAD is not None else 0
