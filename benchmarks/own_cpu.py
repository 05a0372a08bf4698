"""CPU time that is ours: on the program's thread from each entry into our code to its end, and on our own threads."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[..., Any]

THREAD_PREFIX = "otel-rl"
_now = time.thread_time_ns


class Reading(NamedTuple):
    """Sums since the beginning. ``stretches``: how often the clock was read at a beginning and an end."""

    host_ns: int
    stretches: int
    threads_ns: int
    #: The same of empty stretches: what reading the clock and the calls that time our code take.
    empty_ns: int
    empty_stretches: int


class HostThread:
    """Times our replacements of the program's functions on the thread that makes this object.

    A stretch begins where the program calls a replacement and ends where that calls the original; the next one begins
    when the original has returned. Everything between is ours, the SDK's work for us included.
    """

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self._thread = threading.get_ident()
        #: Called before each stretch, uncounted.
        self._before = before
        self._began: int | None = None
        self.nanoseconds = self.stretches = self.entries = 0
        #: Entries by threads of the program that are not timed.
        self.entries_elsewhere = 0

    @property
    def is_inside(self) -> bool:
        """Whether our code runs now on this thread."""
        return self._began is not None

    def timed(self, factory: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a factory of replacements like ``factory``, timed."""

        def make(raw: Any) -> Any:
            function = getattr(raw, "__func__", raw)
            if not callable(function) or isinstance(raw, classmethod | staticmethod) or _is_resumed(function):
                return factory(raw)
            return self.whole(factory(self.original(function)))

        return make

    def _begin(self) -> None:
        self._before()
        self._began = _now()

    def _end(self) -> None:
        if self._began is not None:
            self.nanoseconds += _now() - self._began
            self._began = None
            self.stretches += 1

    def whole(self, replacement: Function) -> Function:
        """Return ``replacement``, which is ours but for the originals that it calls by :meth:`original`, timed."""

        @functools.wraps(replacement)
        def enter(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                # All that a thread of ours does is counted by its own clock.
                self.entries_elsewhere += not threading.current_thread().name.startswith(THREAD_PREFIX)
                return replacement(*args, **kwargs)
            if self.is_inside:
                return replacement(*args, **kwargs)
            self.entries += 1
            self._begin()
            try:
                return replacement(*args, **kwargs)
            finally:
                self._end()

        return enter

    def original(self, original: Function) -> Function:
        """Return ``original`` of the program, as ours call it."""

        @functools.wraps(original)
        def leave(*args: Any, **kwargs: Any) -> Any:
            if not self.is_inside or threading.get_ident() != self._thread:
                return original(*args, **kwargs)
            self._end()
            try:
                return original(*args, **kwargs)
            finally:
                self._begin()

        return leave


def _is_resumed(function: Function) -> bool:
    """Whether a call of ``function`` only makes a coroutine or generator, which runs later and in pieces."""
    return any(
        question(function)
        for question in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    )


def make_empty(host: HostThread) -> Callable[[], None]:
    """Return a replacement that does nothing but call its original, which does nothing, timed by ``host``."""

    def factory(original: Function) -> Function:
        def replacement() -> None:
            original()

        return replacement

    empty: Callable[[], None] = host.timed(factory)(lambda: None)
    return empty


class OwnThreads:
    """CPU time of the threads whose name begins with ``otel-rl``; of one that has ended, up to the last look."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def nanoseconds(self) -> int:
        """Sum of all of them since each began."""
        for thread in threading.enumerate():
            if thread.name.startswith(THREAD_PREFIX) and thread.native_id is not None:
                try:
                    # The clock of a thread by its kernel id, see clock_getcpuclockid(3): a thread that has ended
                    # meanwhile gives an error, where pthread_getcpuclockid() may crash.
                    self._seen[thread.native_id] = time.clock_gettime_ns((~thread.native_id << 3) | 6)
                except OSError:
                    continue
        return sum(self._seen.values())


class OwnCpu:
    """Both together, from :meth:`install` on."""

    def __init__(self) -> None:
        # Before each counted stretch two empty ones: the first takes the cold caches that the timing itself finds after
        # the program's work, the second says what an empty stretch counts at this place.
        self._empty = HostThread()
        warm_up, empty = make_empty(HostThread()), make_empty(self._empty)

        def before() -> None:
            warm_up()
            empty()

        self.host = HostThread(before)
        self.threads = OwnThreads()
        self.replacements = 0

    def install(self) -> None:
        """Time every replacement that is made from now on: before the program imports what is instrumented."""
        from otel_rl.instrumentors.patching import Patches

        # Private, but what both `replace` and `observe` come to.
        replace = Patches._replace

        def timed_replace(
            patches: Patches, owner: Any, name: str, factory: Callable[[Any], Any], switch: Any, *, required: bool
        ) -> bool:
            replaced = replace(patches, owner, name, self.host.timed(factory), switch, required=required)
            self.replacements += replaced
            return replaced

        Patches._replace = timed_replace
        self._install_beside_patches()

    def _install_beside_patches(self) -> None:
        """Time what others call without a replacement: ends of phases in an ``ExitStack``, kernels, the import hook."""
        from otel_rl.core.import_hooks import ImportHooks
        from otel_rl.instrumentors.torch_distributed import dispatcher
        from otel_rl.training.phases import PhaseHandle

        for owner, name in (
            (PhaseHandle, "__exit__"),
            (dispatcher, "_computed"),
            (dispatcher._CollectiveWait, "end"),
            (ImportHooks, "find_spec"),
        ):
            setattr(owner, name, self.host.whole(getattr(owner, name)))
        ImportHooks._found_by_others = self.host.original(ImportHooks._found_by_others)
        kernel, redispatch = dispatcher.DispatcherKernels._kernel, dispatcher._redispatch

        def timed_kernel(operator: Any, *given: Any) -> Function:
            return self.host.whole(kernel(operator, *given))

        dispatcher.DispatcherKernels._kernel = staticmethod(timed_kernel)
        dispatcher._redispatch = lambda operator: self.host.original(redispatch(operator))

    def read(self) -> Reading:
        """All sums now."""
        host, empty = self.host, self._empty
        return Reading(
            host.nanoseconds,
            host.stretches,
            self.threads.nanoseconds(),
            empty.nanoseconds,
            empty.stretches,
        )


class Audit:
    """Finds calls into our code on this thread that are not timed, by the interpreter's slow profile hook."""

    def __init__(self, host: HostThread) -> None:
        import otel_rl

        self._host = host
        self._ours = str(Path(otel_rl.__file__).parent)
        self._original_runs = host.timed(lambda original: original)(make_empty).__wrapped__.__code__
        self.untimed: Counter[str] = Counter()

    def start(self) -> None:
        """Look at every call from now on."""
        sys.setprofile(self._see)

    def stop(self) -> None:
        """Look no more."""
        sys.setprofile(None)

    def _see(self, frame: Any, event: str, _: Any) -> None:
        if event != "call" or self._host.is_inside or not frame.f_code.co_filename.startswith(self._ours):
            return
        caller = frame.f_back
        # Not beyond an original that runs: a replacement is around nearly all of a training.
        while caller is not None and caller.f_code is not self._original_runs:
            if caller.f_code.co_filename.startswith(self._ours):
                return
            caller = caller.f_back
        self.untimed[f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"] += 1
