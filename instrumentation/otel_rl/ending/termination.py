"""SIGTERM: deliver within two seconds, then end the process by the signal's default action, as it would end without us.

The signal may come while the main thread is in C code, where no handler of Python runs. ``faulthandler`` has a handler
in C that writes to a descriptor, here to a pipe. It touches neither what ``signal.getsignal`` shows nor other signals
nor ``signal.set_wakeup_fd``, which belongs to event loops (trio warns of a second user). A handler that the program
sets replaces it, and ``faulthandler.unregister`` works in any thread, unlike ``signal.signal``.

``signal.pause`` returns where a handler in C has run, and the program would go on until the watch has stopped it: a
wrapper stops it there.

A process that does not give the interpreter's lock back ends when it does.
"""

from __future__ import annotations

import faulthandler
import functools
import os
import signal
import time
from _thread import interrupt_main
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from otel_rl.core import threads
from otel_rl.core.threads import Wakeup, allocate_lock, prepare_thread, start_new_thread
from otel_rl.telemetry import deferral

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds from the signal to the end of the process, and of them, those for the delivery.
LIMIT, DELIVERY = 2.0, 1.8
#: Seconds between two attempts to stop the main thread.
_INTERVAL = 0.02
#: Seconds beyond ``LIMIT`` after which the main thread ends the process itself.
_MARGIN = 0.5
_NAME = "otel-rl-sigterm"


class _Pause:
    """Calls ``after`` behind ``signal.pause``; no function, which an attribute of a class would bind to its objects."""

    __wrapped__: Callable[[], None]

    def __init__(self, original: Callable[[], None], after: Callable[[], None]) -> None:
        functools.update_wrapper(self, original)
        self._after = after

    def __call__(self) -> None:
        self.__wrapped__()
        self._after()

    def __reduce__(self) -> str:
        # One of a kind, which copies share.
        return "pause"


class TerminationWatch:
    """Thread that waits for SIGTERM; a second one delivers, since that may wait for a lock of the program.

    Args:
        handler: What stands in ``signal.getsignal``; another one there belongs to the program, which then decides.
        deliver: Called with the seconds that it has; False where the end of the process delivers, which calls ``end``.
        end_at_once: Makes SIGTERM end the process without a delivery.
        end_by_default_action: Ends the process.
    """

    def __init__(
        self,
        handler: object,
        deliver: Callable[[float], bool],
        end_at_once: Callable[[], None],
        end_by_default_action: Callable[[], None],
    ) -> None:
        self._handler = handler
        self._deliver = deliver
        self._end_at_once = end_at_once
        self._end_by_default_action = end_by_default_action
        self._delivered = Wakeup()
        self._never = Wakeup()
        self._running = allocate_lock()
        self._noticed = False
        self._original_pause: Any = None
        self._main_waits = False
        #: Both ends of the pipe; None where the program has closed them, or the process is ending.
        self._pipe: tuple[int, int] | None = None

    def start(self) -> None:
        """Watch from now on. Called by any thread.

        Raises:
            OSError: without a free descriptor.
            RuntimeError: where the system refuses a thread.
        """
        self._pipe = reading, writing = os.pipe()
        os.set_blocking(writing, False)
        self._running.acquire()
        try:
            start_new_thread(self._run, (reading,))
        except RuntimeError:
            self._running.release()
            self._close()
            raise
        os.register_at_fork(before=self._before_fork, after_in_parent=self._listen)
        self._listen()
        self._original_pause, signal.pause = signal.pause, self._wrap(signal.pause)

    def _wrap(self, original: Callable[[], None]) -> Callable[[], None]:
        return _Pause(original, self._stop_where_signalled)

    def _stop_where_signalled(self) -> None:
        if self._is_waiting_to_be_read():
            self.handle(is_exiting=False)

    def _is_waiting_to_be_read(self) -> bool:
        """Return whether faulthandler has written: it writes lines, of which the watch reads one byte."""
        pipe = self._pipe
        if pipe is not None and signal.getsignal(signal.SIGTERM) is self._handler:
            with suppress(OSError):
                import select  # noqa: PLC0415 - few programs pause

                poll = select.poll()
                poll.register(pipe[0], select.POLLIN)
                return bool(poll.poll(0))
        return False

    def _listen(self) -> None:
        if self._pipe is not None:
            # With all_threads=True it reads the frames of threads that run meanwhile, which has crashed processes. The
            # kernel gives a signal to the main thread, unless that blocks it; faulthandler writes in Python's threads.
            faulthandler.register(signal.SIGTERM, file=self._pipe[1], all_threads=False, chain=False)

    def _before_fork(self) -> None:
        # A child that the signal ends before it runs Python code would write to the pipe of its parent.
        if self._pipe is not None:
            self._end_at_once()

    def handle(self, *, is_exiting: bool) -> None:
        """End the process from Python's handler, in the main thread; where ``is_exiting`` that delivers already."""
        pipe = self._pipe
        if pipe is None:
            self._end_by_default_action()
            return
        with suppress(OSError):
            os.write(pipe[1], b"\n")
        # Inside the SDK this thread holds its locks, which the delivery needs: the watch comes back a moment later.
        if self._main_waits or is_exiting or deferral.thread.inside:
            return
        self._main_waits = True
        try:
            self._never.wait(LIMIT + _MARGIN)
        finally:
            self._end_by_default_action()

    def _run(self, reading: int) -> None:
        try:
            prepare_thread(_NAME)
            if self._is_signalled(reading):
                self._noticed = True
                self._end_after_delivery()
            elif self._pipe is not None:
                # The program has closed descriptors that it did not open, as daemons do: the numbers are free for it.
                self._pipe = None
                self._end_at_once()
        finally:
            self._running.release()

    @staticmethod
    def _is_signalled(reading: int) -> bool:
        with suppress(OSError):
            return bool(os.read(reading, 1))
        return False

    def _end_after_delivery(self) -> None:
        deadline = time.monotonic() + LIMIT
        try:
            start_new_thread(self._run_delivery, ())
        except RuntimeError:
            if threads.interpreter_is_ending:
                self._run_delivery()
            else:
                self._delivered.set()
        while not self._delivered.wait(_INTERVAL) and time.monotonic() < deadline:
            if not self._main_waits and signal.getsignal(signal.SIGTERM) is self._handler:
                interrupt_main(signal.SIGTERM)
        self._end_by_default_action()

    def _run_delivery(self) -> None:
        has_ended = True
        try:
            prepare_thread(_NAME)
            deferral.thread.inside = False
            has_ended = self._deliver(DELIVERY)
        finally:
            if has_ended:
                self._delivered.set()

    def end(self) -> None:
        """Stop watching: the process has delivered and ends. Where the signal came meanwhile, it ends by that."""
        self._restore_pause()
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            self._end_at_once()
            os.close(pipe[1])
            # A thread that is left to the end of the interpreter may abort it, see ``IoThread.join``.
            if self._running.acquire(timeout=_MARGIN):
                os.close(pipe[0])
        if self._noticed:
            self._end_by_default_action()

    def close_in_child(self) -> None:
        """Close the pipe of the parent."""
        self._restore_pause()
        self._close()

    def _restore_pause(self) -> None:
        if getattr(signal.pause, "__wrapped__", None) is self._original_pause is not None:
            signal.pause = self._original_pause

    def _close(self) -> None:
        pipe, self._pipe = self._pipe, None
        for descriptor in pipe or ():
            with suppress(OSError):
                os.close(descriptor)
