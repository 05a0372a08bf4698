"""What otel-rl itself costs the steps of this process: measured always, judged at the exit.

The span of each step gets our CPU time, that of the whole process, and how long the thread that makes the steps was
kept from a CPU by others: that separates a step on a busy machine from a step with more to do. It also gets the memory
of the process, which grows from step to step if the program leaks.

The last line of the process names the cost where it is above :data:`WARNING_SHARE`; nothing is switched off. Two shares
are measured, the larger one counts:

* our work on the program's threads, by the wall time: an upper bound of how much longer the steps are;
* all our CPU time, by the wall time or the CPU time of the process, whichever is larger.
"""

from __future__ import annotations

import mmap
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.core import own_cpu, proc_files
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.telemetry import lifecycle
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Callable

#: Share of the time from step to step above which the last line of the process names the cost.
WARNING_SHARE = 0.02
#: Number of first steps that do not count: they import, compile and warm up.
WARM_UP_STEPS = 5
#: Fewest steps after the warm-up that give a share.
MINIMUM_STEPS = 10
#: Shortest duration of those steps, in seconds. Our threads export every 5 and 15 s: within less, one export decides.
MINIMUM_SECONDS = 30.0
#: Seconds between two readings of guessed steps: nobody has asked for these, and reading is a good part of their cost.
APART = 0.02
#: Multiples of this are always read: among them are the short steps that have spans (``step_sampling``).
_READ_ALWAYS = 8
_SECONDS_PER_NS = 1e-9


class CpuSums(NamedTuple):
    """Sums in seconds up to one moment: ``program``, our work on the program's threads; ``own``, our threads."""

    wall: float
    cpu: float
    program: float
    own: float

    def since(self, earlier: CpuSums) -> CpuSums:
        """Return what was added between the two."""
        return CpuSums(*(now - then for now, then in zip(self, earlier, strict=True)))

    @property
    def share(self) -> float:
        """The larger one of the two shares that the module describes, 0 to 1."""
        if self.wall <= 0:
            return 0.0
        return max(self.program / self.wall, (self.program + self.own) / max(self.wall, self.cpu))


def read() -> CpuSums:
    """Read all sums; takes some microseconds."""
    return CpuSums(
        time.perf_counter(),
        time.process_time(),
        own_cpu.nanoseconds() * _SECONDS_PER_NS,
        own_cpu.threads_nanoseconds() * _SECONDS_PER_NS,
    )


class CpuWait(NamedTuple):
    """Seconds in which a thread was ready to run and had no CPU, up to one moment."""

    thread: int
    seconds: float


def read_cpu_wait() -> CpuWait | None:
    """Return the CPU wait of the calling thread; None if the kernel does not count it."""
    with suppress(OSError, ValueError, IndexError):
        nanoseconds = int(proc_files.read("/proc/thread-self/schedstat").split()[1])
        return CpuWait(threading.get_ident(), nanoseconds * _SECONDS_PER_NS)
    return None


def read_memory() -> dict[str, int]:
    """Return the attribute of a step with the memory of the process in bytes; empty if that is not known."""
    with suppress(OSError, ValueError, IndexError):
        resident, shared = proc_files.read("/proc/self/statm").split()[1:3]
        # Pages of files, as of mapped weights and data sets: the system takes them back when it needs room.
        return {attributes.RL_LOOP_MEMORY: (int(resident) - int(shared)) * mmap.PAGESIZE}
    return {}


class StepCosts:
    """Measures the steps of all loops of a process."""

    def __init__(self, reader: Callable[[], CpuSums] = read) -> None:
        self._read = reader
        self._steps = 0
        self._last: CpuSums | None = None
        self._last_wait: CpuWait | None = None
        self._warmed_up: CpuSums | None = None
        #: Steps that have ended since the last reading.
        self._unread = 0

    @property
    def own_seconds(self) -> float:
        """All our CPU time up to the last reading."""
        return 0.0 if self._last is None else self._last.program + self._last.own

    @property
    def share(self) -> float | None:
        """Share of the time from step to step, 0 to 1; None before :data:`MINIMUM_STEPS` and seconds."""
        if self._last is None or self._warmed_up is None or self._steps < WARM_UP_STEPS + MINIMUM_STEPS:
            return None
        spent = self._last.since(self._warmed_up)
        return spent.share if spent.wall >= MINIMUM_SECONDS else None

    def step_opened(self, _: steps.Step) -> None:
        """Begin with the first step: what was before it belongs to none."""
        if self._last is None:
            self._last, self._last_wait = self._read(), read_cpu_wait()

    def step_closing(self, step: steps.Step) -> None:
        """Put what was spent since the last reading on the span of ``step``."""
        self._steps += 1
        self._unread += 1
        last = self._last
        is_between = step.loop.source == LoopSource.GUESSED and step.iteration % _READ_ALWAYS
        if last is not None and is_between and time.perf_counter() < last.wall + APART:
            # Its span gets nothing: the next reading is of several steps.
            return
        self._measure(step)

    def _measure(self, step: steps.Step) -> None:
        now, before = self._read(), self._last
        wait, wait_before = read_cpu_wait(), self._last_wait
        self._last, self._last_wait = now, wait
        number, self._unread = self._unread, 0
        if before is not None and step.takes_values:
            spent = now.since(before)
            step.describe(
                {
                    attributes.RL_TELEMETRY_CPU_TIME: spent.program + spent.own,
                    attributes.RL_LOOP_CPU_TIME: spent.cpu,
                    attributes.RL_LOOP_CPU_STEPS: number,
                    **read_memory(),
                }
            )
            if wait is not None and wait_before is not None and wait.thread == wait_before.thread:
                step.describe({attributes.RL_LOOP_CPU_WAIT_TIME: wait.seconds - wait_before.seconds})
        if self._warmed_up is None and self._steps >= WARM_UP_STEPS:
            self._warmed_up = now

    def forget(self) -> None:
        """Begin anew in a forked child, which measures its own steps."""
        self._steps, self._last, self._last_wait, self._warmed_up, self._unread = 0, None, None, None, 0


_costs = StepCosts()


def start(step: steps.Step) -> None:
    """Measure the steps of this process; called once, when the first ``step`` has opened."""
    steps.openers.add(_costs.step_opened)
    steps.contributors.add(_costs.step_closing)
    lifecycle.after_fork_in_child(_costs.forget)
    _costs.step_opened(step)


def excessive_share() -> float | None:
    """Return the share of the time from step to step where it is above :data:`WARNING_SHARE`, else None."""
    share = _costs.share
    return share if share is not None and share > WARNING_SHARE else None


def is_mostly_of(places: str) -> bool:
    """Return whether more than half of all our CPU time is of the places whose names begin so."""
    return own_cpu.nanoseconds_of(places) * _SECONDS_PER_NS > _costs.own_seconds / 2
