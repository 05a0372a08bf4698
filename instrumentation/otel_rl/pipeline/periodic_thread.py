"""A thread of ours that calls a function at intervals, until the process ends."""

from __future__ import annotations

# By name, before gevent can patch them: the loop would be a greenlet of a loop that may hang.
from _thread import allocate_lock, start_new_thread
from typing import TYPE_CHECKING

from otel_rl.internal_errors import guard
from otel_rl.pipeline.io_thread import Wakeup, prepare_thread

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds that the end of the process may wait for the thread.
_END = 0.5


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

    def end(self) -> None:
        """End the thread; one that is left to the end of the interpreter may abort it, see ``IoThread.join``."""
        self._ending = True
        self._wakeup.set()
        if self._running.acquire(timeout=_END):
            self._running.release()

    def _run(self) -> None:
        try:
            prepare_thread(self._name)
            sleep = self._sleep
            while not self._ending:
                self._wakeup.wait(sleep)
                sleep = self._sleep
                with guard(self._name):
                    sleep = self._function()
        finally:
            self._running.release()
