"""Threads of ours for input and output: at most one for files and one for the network in a process.

Threads of the host program set state, append to a bounded queue, or wait for a :class:`IoRequest` until their deadline.
They never take a lock that an I/O thread holds during a system call.

A thread in uninterruptible sleep (state ``D``: a hard NFS mount whose server is gone) delays the end of the process
beyond any deadline of ours: the kernel frees a process only when its last thread has left the system call.
"""

from __future__ import annotations

import math
import time

# Imported by name before the program can patch them.
from _thread import allocate_lock, get_ident
from collections import deque
from contextlib import suppress
from time import sleep
from typing import TYPE_CHECKING, Protocol

from otel_rl.core import own_cpu, threads
from otel_rl.core.guard import guard
from otel_rl.core.threads import Wakeup, prepare_thread, start_new_thread
from otel_rl.pipeline import sdk_logging
from otel_rl.telemetry import deferral

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds from the first record to the first export, so that a process killed early still exports something.
FIRST_EXPORT = 0.5
#: Longest sleep in seconds; also how soon a chore follows the flag that asks for it.
_LONGEST_SLEEP = 1.0
#: Seconds for which a thread of the program gives way to an I/O thread, and least seconds from one time to the next.
_WAY, _WAY_INTERVAL = 0.0001, 0.01
#: Seconds that a flush goes on during an outage, and between its attempts.
_PATIENCE, _RETRY = 5.0, 0.5


class Task(Protocol):
    """Something that an I/O thread exports again and again."""

    @property
    def signal(self) -> str:
        """``traces``, ``metrics`` or ``logs``."""

    @property
    def pending(self) -> bool:
        """True when there may be something to export."""

    @property
    def failing(self) -> bool:
        """True when the latest export failed."""

    @property
    def busy(self) -> bool:
        """True while a thread exports for it."""

    @property
    def in_outage(self) -> bool:
        """True while the destination takes nothing, and may do so later."""

    @property
    def left(self) -> int:
        """What waits, in whatever unit; 0 where there is nothing."""

    def next_run(self) -> float:
        """Time of the next :meth:`run` (``time.monotonic()``)."""

    def run(self) -> None:
        """Export what is due."""

    def flush(self, deadline: float) -> bool:
        """Flush everything recorded so far; False when items were lost or the deadline passed."""

    def close(self) -> None:
        """Close the exporter; the next export opens another one."""

    def give_up(self) -> None:
        """Keep the remaining items in files, or count them as lost: the time is up. Any thread may call it."""


class IoRequest:
    """A unit of work for an I/O thread; the caller can wait for its completion."""

    def __init__(self, work: Callable[[], bool], deadline: float) -> None:
        self._work = work
        self._deadline = deadline
        self._done = Wakeup()
        self._succeeded = False
        self.finished = False
        self.refused = False

    @property
    def is_over(self) -> bool:
        """True when the work is done, will not be, or comes too late."""
        return self.finished or self.refused or time.monotonic() >= self._deadline

    def serve(self) -> None:
        """Do the work; called by the I/O thread."""
        try:
            self._succeeded = self._work()
        finally:
            self.finished = True
            self._done.set()

    def refuse(self) -> None:
        """Fail the request and wake its waiter: no thread will do the work."""
        self.refused = True
        self._done.set()

    def wait(self) -> bool:
        """Wait until the deadline; True when the work was done in time and succeeded."""
        return self._done.wait(self._deadline - time.monotonic()) and self._succeeded


class IoThread:
    """One thread that runs its tasks when they are due and serves requests between them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: list[Task] = []
        #: Run after every turn; each is cheap when there is nothing to do.
        self.chores: list[Callable[[], None]] = []
        #: Work for the time between two turns, for which no flush and no exit waits: each call does some 10 ms of it,
        #: and returns whether there was any.
        self.spare_time: list[Callable[[], bool]] = []
        self._turns = own_cpu.Turns()
        self._reset()

    def _reset(self) -> None:
        self._identifier: int | None = None
        self._gave_way = 0.0
        self._ending = False
        self._retired = False
        self._goes_on = False
        self._running = allocate_lock()
        self._requests: deque[IoRequest] = deque()
        self._wakeup = Wakeup()

    def start(self) -> bool:
        """Start the thread unless it runs; False when no other thread can be started."""
        if not self._running.acquire(blocking=False):
            return True
        # Not threading.Thread: its start waits, and it takes a lock that a signal handler may have interrupted.
        try:
            start_new_thread(self._run, ())
        except RuntimeError:
            self._running.release()
            return False
        return True

    @property
    def needed(self) -> bool:
        """True when the thread runs or a task is pending."""
        return self.started or any(task.pending for task in self.tasks)

    @property
    def started(self) -> bool:
        """True while the thread runs."""
        return self._running.locked()

    def wake(self) -> None:
        """Let the thread look at its tasks now."""
        self._wakeup.set()

    def give_way(self) -> None:
        """Let the thread work for a moment, which has fallen behind; for a thread of the program, of any kind.

        CPython takes the GIL from a thread that has held it for 5 ms, but never from one that releases it more often
        and has it again before another thread is awake: ``os.urandom`` in each ``uuid4`` is enough for that
        (``take_gil`` in ``Python/ceval_gil.c``, 3.10 to 3.14). A sleep, however short, hands it over.
        """
        now = time.monotonic()
        if now - self._gave_way >= _WAY_INTERVAL and get_ident() != self._identifier:
            self._gave_way = now
            sleep(_WAY)

    def post(self, work: Callable[[], bool], deadline: float) -> IoRequest:
        """Post ``work`` to the thread; the request fails at once when the thread cannot do it.

        An interpreter that is ending may start no thread: then the calling thread does the work before this returns,
        and an exporter that waits for its server is limited by its own timeout only.
        """
        request = IoRequest(work, deadline)
        if get_ident() == self._identifier:
            # An observable callback of the program may flush: the thread cannot wait for itself.
            request.refuse()
            return request
        # Append before the start: a thread that is ending starts its successor for pending requests.
        self._requests.append(request)
        if self.start():
            self._wakeup.set()
        elif threads.interpreter_is_ending and not deferral.must_wait():
            self._serve_here()
        else:
            with suppress(ValueError):
                self._requests.remove(request)
            request.refuse()
        return request

    def flush(self, deadline: float) -> bool:
        """Flush all tasks; called by the thread itself. During an outage it tries again for a few seconds."""
        patience = min(deadline, time.monotonic() + _PATIENCE)
        failed = [task for task in self.working_first() if not task.flush(deadline)]
        waiting = [task for task in failed if task.in_outage]
        is_lossless = len(waiting) == len(failed)
        while waiting and time.monotonic() + _RETRY < patience:
            Wakeup().wait(_RETRY)
            waiting = [task for task in waiting if not task.flush(deadline)]
        self._do_chores()
        return is_lossless and not waiting

    def end_with(self, work: Callable[[], object]) -> bool:
        """Do the last ``work``, then end the thread; called by the thread itself."""
        self._ending = True
        work()
        return True

    def retire(self) -> None:
        """Export nothing more of its own accord: a successor delivers in this thread's place."""
        self._retired = True

    def working_first(self) -> list[Task]:
        """Sort failing tasks last: a destination that hangs would use up the whole deadline."""
        return sorted(self.tasks, key=lambda task: task.failing)

    def _run(self) -> None:
        self._identifier = get_ident()
        try:
            prepare_thread(self.name)
            while not self._ending:
                self._turn()
        finally:
            self._identifier = None
            self._ending = self._retired = False
            self._release()

    def _release(self) -> None:
        """Release the lock for the next thread; start it now if requests arrived meanwhile."""
        self._running.release()
        if self._requests and not self.start() and threads.interpreter_is_ending:
            self._serve_here()

    def _serve_here(self) -> None:
        """Serve the requests in the calling thread, unless another one does."""
        if not self._running.acquire(blocking=False):
            return
        self._identifier = get_ident()
        sdk_logging.last_error.begin_set_up()
        try:
            with threads.uninstrumented(), deferral.inside_sdk():
                self._serve_requests()
        finally:
            sdk_logging.last_error.end_set_up()
            self._identifier = None
            self._ending = self._retired = False
            self._release()

    def stand_in(self, work: Callable[[], object]) -> bool:
        """Do ``work`` in the calling thread in place of this one; False where this one runs, and may be at it."""
        if not self._running.acquire(blocking=False):
            return False
        try:
            work()
        finally:
            self._running.release()
            # What was recorded meanwhile took this for the thread.
            if self.needed:
                self.start()
        return True

    def join(self, deadline: float) -> None:
        """Wait until the thread has ended after :meth:`end_with`; the next record starts another one.

        The end of the interpreter aborts a thread that is left with ``pthread_exit``, for which glibc loads a library:
        without a free descriptor, or after ``chroot``, that ends the program by SIGABRT
        (https://github.com/python/cpython/issues/87135).
        """
        if self._running.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            self._release()

    def _turn(self) -> None:
        now = time.monotonic()
        due = min((task.next_run() for task in self.tasks), default=now + _LONGEST_SLEEP)
        self._wakeup.wait(0.0 if self._goes_on else min(due - now, _LONGEST_SLEEP))
        with self._turns:
            self._work()

    def _work(self) -> None:
        deferral.drain_in_io_thread(posts=self._posts_are_due())
        self._serve_requests()
        for task in self.tasks:
            if not (self._retired or self._ending) and task.next_run() <= time.monotonic():
                with guard(f"io_thread.{self.name}.export"):
                    task.run()
        self._do_chores()
        self._goes_on = False
        if not (self._requests or self._retired or self._ending):
            with guard(f"io_thread.{self.name}.spare_time"):
                self._goes_on = any(work() for work in self.spare_time)

    def _serve_requests(self) -> None:
        while self._requests:
            # Again: the program may have recorded while the thread served the request before.
            deferral.drain_in_io_thread(posts=True)
            with guard(f"io_thread.{self.name}.request"):
                self._requests.popleft().serve()

    def _posts_are_due(self) -> bool:
        """Return whether there are many, or an export is due; logs alone leave too often for that."""
        if deferral.is_prompt or len(deferral.posted) >= deferral.POSTED_BATCH:
            return True
        now = time.monotonic()
        tasks = [task for task in self.tasks if task.signal != "logs"] or self.tasks
        return any(task.next_run() <= now or task.next_run() == math.inf for task in tasks)

    def _do_chores(self) -> None:
        for chore in self.chores:
            with guard(f"io_thread.{self.name}.chore"):
                chore()

    def after_fork_in_child(self) -> None:
        """Start without a thread and requests."""
        self._reset()
