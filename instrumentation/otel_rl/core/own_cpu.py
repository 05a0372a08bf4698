"""The CPU time that otel-rl takes itself: on the program's threads an estimate, on threads of its own measured.

Reading the clock of a thread is a system call, which would cost as much as some of our hooks. So a call is counted each
time and timed every :data:`SAMPLING_PERIOD`-th time. The estimate is the number of calls times their mean. Of each
place the second and the fourth call are timed too, so that a place that is rarely called has a mean soon. The first
call is not: it imports and makes things once.

What is too hot even to be counted here gives its estimate through :func:`add_source`.

Threads of our own are found by their names, which all begin with ``otel-rl``. Threads that a library starts for an
exporter, as gRPC does, have other names and are not counted.

A leaf, which hot paths import. :mod:`otel_rl.training.own_cost` reads the figures.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from _thread import allocate_lock
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")

#: One call in so many is timed.
SAMPLING_PERIOD = 16
#: Weight of the latest sample in the mean: the cost of a place changes, for one where something is left out.
LATEST_SAMPLE_WEIGHT = 1 / 8
#: What a wrapper of ours costs beside the hook in it, in ns, between two computations of a model, where the caches are
#: cold; from ``grpo_step_cpu``.
WRAPPER_OVERHEAD_NS = 4000
#: A sample counts with at most so many times the mean.
MAXIMUM_MULTIPLE_OF_MEAN = 4
#: A sample up to so many ns counts whole.
SHORT_SAMPLE_NS = 20_000
#: The first sample, which has no mean yet, counts with at most so many ns.
MAXIMUM_FIRST_SAMPLE_NS = 500_000
_CLOCK_READINGS = 50

clock = time.thread_time_ns
thread_clock = time.clock_gettime_ns
_THREAD_PREFIX = "otel-rl"


class HookCost:
    """Calls of one hook: how many, and what one costs."""

    __slots__ = ("calls", "due", "mean", "settled")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.calls = 0
        #: The call that is timed next.
        self.due = 2
        #: Nanoseconds of one call; unknown before the first sample.
        self.mean: float | None = None
        #: Calls that are in the sum already.
        self.settled = 0

    def sampled(self, elapsed: int) -> None:
        """Add a timed call of ``elapsed`` ns to the mean."""
        # A garbage collection of the program may fall into our call. It is no cost of ours, and would stay in the mean.
        own = min(max(elapsed - _clock_ns(), 0) + WRAPPER_OVERHEAD_NS, _maximum_sample_ns(self.mean))
        self.mean = own if self.mean is None else self.mean + (own - self.mean) * LATEST_SAMPLE_WEIGHT
        self.due = self.calls + min(self.calls, SAMPLING_PERIOD)

    def sampling(self, function: Function) -> Function:
        """Return ``function`` with the clock around each call, for a caller that counts its calls here itself."""

        def sampled(*args: Any, **kwargs: Any) -> Any:
            began = clock()
            try:
                return function(*args, **kwargs)
            finally:
                self.sampled(clock() - began)

        return functools.update_wrapper(sampled, function)  # type: ignore[return-value]  # the same signature

    def settle(self) -> float:
        """Return the ns of the calls since the last settlement."""
        if self.mean is None:
            return 0.0
        calls = self.calls
        new, self.settled = calls - self.settled, calls
        return new * self.mean


_places: dict[str, HookCost] = {}
#: What tells the nanoseconds of its calls since it was asked last.
_sources: dict[str, Callable[[], float]] = {}
#: What each of these has told.
_source_ns: dict[str, float] = {}
_settled_ns = 0.0
_settling = allocate_lock()
_clock_reading_ns: int | None = None
#: Kernel id of a thread of ours -> ns of it at the last look; of one that has ended, up to then.
_threads: dict[int, int] = {}
#: Garbage collections of the program in those threads, and what was told of the threads last.
_collections_ns = _reported_ns = 0


def place(name: str) -> HookCost:
    """Return the place of this name.

    Wrappers on a hot path count there as :func:`timed` does, without a call in between::

        here.calls = calls = here.calls + 1
        (function if calls < here.due else sampled)(...)  # sampled is here.sampling(function)
    """
    return _places.setdefault(name, HookCost())


def timed(name: str, function: Function) -> Function:
    """Return ``function`` as one that takes part in the estimate; those of the same name share a place.

    Not for functions of the program, nor for what calls them: all of it counts as ours.
    """
    here = place(name)
    sampled = here.sampling(function)

    def counted(*args: Any, **kwargs: Any) -> Any:
        # Two threads may lose a count: it is an estimate.
        here.calls = calls = here.calls + 1
        if calls < here.due:
            return function(*args, **kwargs)
        return sampled(*args, **kwargs)

    return functools.update_wrapper(counted, function)  # type: ignore[return-value]  # the same signature


def estimated(name: str) -> Callable[[Function], Function]:
    """Return :func:`timed` as a decorator."""
    return lambda function: timed(name, function)


def add_source(name: str, nanoseconds: Callable[[], float]) -> None:
    """Add what ``nanoseconds()`` estimates for its calls since it was asked last; one thread at a time asks."""
    _sources[name] = nanoseconds


def nanoseconds() -> int:
    """Return the estimate for all calls since the process began; it never falls."""
    global _settled_ns
    # Not waiting: another thread that settles now gives the same figure a moment later.
    if _settling.acquire(blocking=False):
        try:
            for here in list(_places.values()):
                # Most are not called in most steps.
                if here.calls != here.settled:
                    _settled_ns += here.settle()
            for name, source in list(_sources.items()):
                more = source()
                _source_ns[name] = _source_ns.get(name, 0.0) + more
                _settled_ns += more
        finally:
            _settling.release()
    return int(_settled_ns)


def by_place() -> dict[str, tuple[int, float]]:
    """Return calls, and mean nanoseconds, of every place that was timed."""
    return {name: (place.calls, place.mean) for name, place in _places.items() if place.mean is not None}


def nanoseconds_of(prefix: str) -> float:
    """Return the estimate of the places and sources whose names begin with ``prefix``."""
    of_places = sum(calls * mean for name, (calls, mean) in by_place().items() if name.startswith(prefix))
    return of_places + sum(told for name, told in _source_ns.items() if name.startswith(prefix))


def reset() -> None:
    """Begin at zero in a forked child."""
    global _settled_ns, _settling, _collections_ns, _reported_ns
    _settled_ns, _collections_ns, _reported_ns = 0.0, 0, 0
    _threads.clear()
    _source_ns.clear()
    _settling = allocate_lock()  # a thread of the parent may hold the other one
    for place in _places.values():
        place.reset()


def _clock_ns() -> int:
    """Return the ns that reading the clock adds to a sample; measured once."""
    global _clock_reading_ns
    if _clock_reading_ns is None:
        readings = [clock() for _ in range(_CLOCK_READINGS)]
        _clock_reading_ns = min(later - earlier for earlier, later in itertools.pairwise(readings))
    return _clock_reading_ns


def _maximum_sample_ns(mean: float | None) -> int:
    """Return the ns that a sample counts at most; ``mean`` is that of the earlier ones."""
    return MAXIMUM_FIRST_SAMPLE_NS if mean is None else int(max(mean * MAXIMUM_MULTIPLE_OF_MEAN, SHORT_SAMPLE_NS))


# -- threads of our own ------------------------------------------------------------------------------------------------


class CpuStretch:
    """Measures what a thread of ours does again and again, without garbage collections of the program.

    Python runs a collection in the thread that creates the next object. A full one takes some 0.1 s where torch is
    loaded. It is no cost of the interrupted work, so a stretch with one counts a few times the usual at most.
    """

    __slots__ = ("_began", "_collections", "_mean", "left_out")

    def __init__(self) -> None:
        self._began = self._collections = 0
        self._mean: float | None = None
        #: Nanoseconds of the last stretch that did not count.
        self.left_out = 0

    def begin(self) -> None:
        """Begin the thread; the same thread has to end it."""
        self._collections = _full_collections()
        self._began = clock()

    def end(self) -> int:
        """Return the CPU time since :meth:`begin` that counts, in ns."""
        elapsed = clock() - self._began
        own = elapsed if _full_collections() == self._collections else min(elapsed, _maximum_sample_ns(self._mean))
        self.left_out = elapsed - own
        if not self.left_out:
            self._mean = own if self._mean is None else self._mean + (own - self._mean) * LATEST_SAMPLE_WEIGHT
        return own


class Turns(CpuStretch):
    """The turns of a thread of ours; :func:`threads_nanoseconds` leaves out the collections in them."""

    __slots__ = ()

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *_: object) -> None:
        global _collections_ns
        self.end()
        # Two threads may lose one: it is an estimate.
        _collections_ns += self.left_out


def _full_collections() -> int:
    """Return how many this process has run. One in another thread takes no CPU time of ours."""
    import gc  # noqa: PLC0415 - a process that records nothing needs it not

    return int(gc.get_stats()[-1]["collections"])


def find_threads() -> None:
    """Look for threads that have begun. Not for the program's threads: it takes a lock of ``threading``."""
    for thread in threading.enumerate():
        if thread.name.startswith(_THREAD_PREFIX) and thread.native_id is not None:
            _threads.setdefault(thread.native_id, 0)


def threads_nanoseconds() -> int:
    """Return the CPU ns of all our threads, each since it began, without full garbage collections; it never falls."""
    global _reported_ns
    for native in list(_threads):
        # Of a thread that has ended this is an error, where pthread_getcpuclockid() may crash.
        with suppress(OSError):
            _threads[native] = max(thread_clock(_clock_of(native)), _threads[native])
    _reported_ns = max(sum(_threads.values()) - _collections_ns, _reported_ns)
    return _reported_ns


def _clock_of(native: int) -> int:
    """Return the CPU clock of a thread by its kernel id, see ``CPUCLOCK_PERTHREAD_MASK`` in Linux."""
    return (~native << 3) | 6
