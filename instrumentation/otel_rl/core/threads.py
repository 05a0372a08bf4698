"""Threads that do something at intervals (:class:`PeriodicThread`), and what every thread of ours needs."""

from __future__ import annotations

import os
import re
import signal
import threading

# Imported by name before the program can patch them: gevent would run the loop below as a greenlet.
from _thread import allocate_lock, get_ident
from _thread import start_new_thread as _start
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value

from otel_rl.core import own_cpu
from otel_rl.core.guard import guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from opentelemetry.context import Context

#: ``allocate_lock`` is for modules that may be loaded after gevent has patched it. A greenlet in a thread of ours does
#: not run, and its hub may wait forever for an import that the program's hub makes at the same time.
__all__ = [
    "PeriodicThread",
    "Wakeup",
    "allocate_lock",
    "preparations",
    "prepare_thread",
    "signals_of_main_thread",
    "start_new_thread",
    "uninstrumented",
]

#: Seconds that the end of the process may wait for a :class:`PeriodicThread`.
_PERIODIC_END = 0.5
#: The CPU raises them in the thread itself; faulthandler must see them.
_SYNCHRONOUS = {
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
    signal.SIGSYS,
    signal.SIGTRAP,
}
#: A write raises them in the thread that writes.
_OF_WRITES = {signal.SIGXFSZ, signal.SIGPIPE}
_ASYNCHRONOUS = signal.valid_signals() - _SYNCHRONOUS
#: Called in every thread of ours when it begins; ``telemetry`` adds what marks the thread.
preparations: list[Callable[[], None]] = []
#: True once the interpreter has refused a thread because it is ending. CPython 3.12.0 to 3.12.2 does so before it calls
#: what is registered with ``atexit`` (https://github.com/python/cpython/issues/113964), and mended it in 3.12.3.
interpreter_is_ending = False


class Wakeup:
    """An event for one waiter. A signal handler may set it while its thread sets it, unlike ``threading.Event``."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake the waiter, or let its next wait return at once; never blocks."""
        # Faster than asking first, and without a race.
        with suppress(RuntimeError):
            self._lock.release()

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds; True when it was set. Clears it."""
        return self._lock.acquire(timeout=min(max(timeout, 0.0), threading.TIMEOUT_MAX))


def start_new_thread(function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    """Start a thread of ours, which has signals unblocked in :func:`signals_of_main_thread` only.

    A program that waits in sigwait() has blocked its signals; the kernel would deliver them to the thread and end it. A
    write beyond RLIMIT_FSIZE raises SIGXFSZ in the writing thread: blocked, the write fails with EFBIG instead.

    Blocked before the thread begins: until CPython knows it, it may take a SIGTERM that waits for the main thread, of
    which faulthandler then writes nothing (``faulthandler_dump_traceback``, CPython 3.10 to 3.14). The signal is lost.

    Raises:
        RuntimeError: where the system refuses a thread, or the interpreter is ending (:data:`interpreter_is_ending`).
    """
    global interpreter_is_ending
    # Asked first: a handler of the program that runs in the second call may raise, and the signals are blocked by then.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, _ASYNCHRONOUS)
        _start(function, arguments)
    except RuntimeError as error:
        interpreter_is_ending = "interpreter shutdown" in str(error)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def signals_of_main_thread() -> Iterator[None]:
    """Block in this thread of ours what the main thread blocks, for code of the program.

    Threads and processes inherit the mask: with every signal blocked a child ignores SIGTERM. Signals of writes stay
    blocked: one of ours may have raised such a signal, which waits, and would end the process.
    """
    blocked = _blocked_in_main_thread()
    if blocked is None:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_SETMASK, blocked | _OF_WRITES)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _blocked_in_main_thread() -> set[int] | None:
    """Return its blocked signals; None where the system does not tell."""
    try:
        # As bytes: the codec of ASCII is a module, which a process that dropped its privileges may not be able to read.
        status = Path(f"/proc/self/task/{os.getpid()}/status").read_bytes()
    except OSError:
        return None
    mask = re.search(rb"^SigBlk:\s*([0-9a-f]+)$", status, re.MULTILINE)
    if mask is None:
        return None
    return {number for number in signal.valid_signals() if int(mask[1], 16) >> (number - 1) & 1}


def prepare_thread(name: str) -> None:
    """Make the calling thread one of ours, which records nothing in place and has no instrumentation."""
    attach(_without_instrumentation())
    _register(name)
    own_cpu.find_threads()
    for prepare in preparations:
        prepare()


@contextmanager
def uninstrumented() -> Iterator[None]:
    """Suppress instrumentation for work of ours on a thread of the program."""
    token = attach(_without_instrumentation())
    try:
        yield
    finally:
        detach(token)


def _without_instrumentation() -> Context:
    return set_value("suppress_instrumentation", True, set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))


def _register(name: str) -> None:
    """Let ``threading`` know the calling thread by ``name``.

    ``threading.current_thread()`` would do so with a number from the counter that names the program's threads
    ``Thread-1``, ``Thread-2``: ``_newname`` in ``threading._DummyThread.__init__`` (CPython 3.10 to 3.14).
    """
    initialise = getattr(threading._DummyThread.__init__, "__code__", None)  # noqa: SLF001
    if get_ident() not in threading._active and initialise is not None:  # type: ignore[attr-defined]  # noqa: SLF001
        thread = threading._DummyThread.__new__(threading._DummyThread)  # noqa: SLF001
        with suppress(Exception):
            FunctionType(initialise, {**vars(threading), "_newname": lambda _: name})(thread)
    threading.current_thread().name = name


class PeriodicThread:
    """Calls ``function`` again and again, a last time at the end; it returns the seconds to sleep before the next call.

    Args:
        name: Name of the thread.
        sleep: Seconds before the first call.
        function: May raise; the error is counted, and the next call comes after ``sleep`` seconds.
    """

    def __init__(self, name: str, sleep: float, function: Callable[[], float]) -> None:
        self._name = name
        self._sleep = sleep
        self._function = function
        self._turns = own_cpu.Turns()
        self._wakeup = Wakeup()
        self._running = allocate_lock()
        self._ending = False

    def start(self) -> None:
        """Start the thread unless it runs, or the system refuses one."""
        if not self._running.acquire(blocking=False):
            return
        self._ending = False
        try:
            start_new_thread(self._run, ())
        except RuntimeError:
            self._running.release()

    def wake(self) -> None:
        """Let it call the function now."""
        self._wakeup.set()

    def end(self) -> None:
        """End the thread; one that is left to the end of the interpreter may abort it, see ``IoThread.join``."""
        self._ending = True
        self._wakeup.set()
        if self._running.acquire(timeout=_PERIODIC_END):
            self._running.release()

    def _run(self) -> None:
        try:
            prepare_thread(self._name)
            sleep = self._sleep
            while not self._ending:
                self._wakeup.wait(sleep)
                sleep = self._sleep
                with self._turns, guard(self._name):
                    sleep = self._function()
        finally:
            self._running.release()
