"""Queues recordings that must not run in place; the next call or an I/O thread drains the queue.

Signal handlers, finalisers, ``weakref`` callbacks and fork handlers run in the middle of other code of their thread.
The SDK's locks are not re-entrant. A handler that records while its own thread is inside the SDK would wait for itself.
:class:`~otel_rl.telemetry.scope.Scope` therefore marks its thread while it is inside the SDK (:data:`thread`), and
what a handler records meanwhile is queued with its moment and its context. No lock is taken on its way there.

The trainer's thread also leaves recordings to an I/O thread (:func:`post`), because they cost several times more there:
between two computations of the model our code and the SDK's find the processor's caches cold. An I/O thread records
those of several seconds together, just before it exports.

Not covered: a handler that interrupts the *program's own* call into the SDK. Signal handlers are described in
``docs/host-edges.md``.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from otel_rl.core import clock, threads
from otel_rl.core.guard import guard
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

#: Most recordings that wait; further ones are counted as dropped.
MAXIMUM = 8192
#: With so many posts the I/O thread is woken.
POSTED_BATCH = 512


class DrainingThread(Protocol):
    """What this module needs of the thread that drains ``posted``."""

    @property
    def started(self) -> bool:
        """True while it runs."""

    def start(self) -> bool:
        """Start it unless it runs; False if the system refuses a thread."""

    def wake(self) -> None:
        """Let it look at ``posted`` now."""

    def give_way(self) -> None:
        """Let it work for a moment, where this thread may have kept it from that."""


class Moment(NamedTuple):
    """One moment on both clocks: ``time.perf_counter()`` in s, ns since the epoch."""

    counter: float
    wall: int


def now() -> Moment:
    """Return the present moment, for an end that is recorded later."""
    # Not Moment(...), which runs Python code; on the trainer's thread that shows.
    return tuple.__new__(Moment, (clock.counter(), clock.now()))


class _Thread(threading.local):
    #: True while this thread is inside the SDK on our behalf.
    inside = False
    #: True while this thread drains the queue.
    draining = False


thread = _Thread()
#: (signal, process, recording), oldest first. Read by Scope at the end of each call.
pending: deque[tuple[str, int, Callable[[], None]]] = deque()
#: The same, for an I/O thread only.
posted: deque[tuple[str, int, Callable[[], None]]] = deque()
_posted_lock = threading.Lock()
#: The I/O thread that drains ``posted``; None where there is none of ours.
_io_thread: DrainingThread | None = None
#: The I/O thread was woken for the first post of this process: it may sleep for a second, and the export comes later.
_is_woken = False
#: This process, for what waits at a fork. Asking the system for each recording would cost a system call.
_process = os.getpid()
#: Forks in progress. Another thread may hold a lock of the SDK that no one will release in the child.
forks = 0
#: What is posted is recorded about once a second, and not only before an export: somebody waits for it.
is_prompt = False
#: True when ``otel_rl.ending`` follows forks: it says when the child's SDK is ready.
_released_by_ending = False


def must_wait() -> bool:
    """Return whether a call into the SDK could deadlock on this thread, or on a thread lost in a fork."""
    return thread.inside or forks > 0


class inside_sdk:  # noqa: N801 - reads as a statement
    """``with inside_sdk():`` marks the thread for calls that are not on a hot path."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = thread.inside
        thread.inside = True

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        thread.inside = self._before


def later(signal: str, recording: Callable[[], None]) -> bool:
    """Call ``recording`` at the next call of any scope, by an I/O thread, or at the end of the process.

    False where so many wait that it is dropped and counted.
    """
    if len(pending) >= MAXIMUM:
        drops.count(signal, "deferral_full")
        return False
    pending.append((signal, _process, recording))
    return True


def accept_posts(io_thread: DrainingThread | None) -> None:
    """Let ``io_thread`` record what is posted; None: from now on every recording runs in place."""
    global _io_thread
    _io_thread = io_thread


def posting() -> bool:
    """Return whether :func:`post` leaves recordings to an I/O thread."""
    return _io_thread is not None and not thread.draining


def post(signal: str, recording: Callable[[], None]) -> bool:
    """Call ``recording`` on an I/O thread at the next export; at once where there is no such thread.

    ``recording`` must hold no tensor and no traceback: it would keep the program's memory alive until then. When the
    queue is full the caller drains it; where it must not, as inside the SDK, the recording is dropped and counted.
    False then: who waits for the recording before it posts again would wait for ever.
    """
    global _is_woken
    io_thread = _io_thread
    if io_thread is None or thread.draining:
        if must_wait():
            return later(signal, recording)
        recording()
        return True
    number = len(posted) + 1
    if number > MAXIMUM and must_wait():
        drops.count(signal, "deferral_full")
        return False
    posted.append((signal, _process, recording))
    if not io_thread.started and not io_thread.start():
        drain_all()
    elif number == POSTED_BATCH or not _is_woken:
        _is_woken = True
        io_thread.wake()
    elif number >= MAXIMUM:
        drain_all()
    return True


def give_way() -> None:
    """Let the I/O thread work for a moment, which has fallen behind."""
    if _io_thread is not None:
        _io_thread.give_way()


def is_drained() -> bool:
    """Return whether a thread of ours runs that drains the queue."""
    return _io_thread is not None and _io_thread.started


def has_posts() -> bool:
    """Return whether posts wait, or while a thread is recording them: the last one has left the queue then."""
    return bool(posted) or _posted_lock.locked()


def drain() -> None:
    """Drain the queue. Does nothing when this thread must not record or is already draining."""
    _drain(pending)


def drain_all() -> None:
    """Like :func:`drain`, with what was left to an I/O thread. All of it is recorded when this returns."""
    if must_wait() or thread.draining:
        return
    # Held for as long as a recording takes, which does no I/O. The deadline is for what must not happen.
    if _posted_lock.acquire(timeout=1.0):
        try:
            _drain(posted)
        finally:
            _posted_lock.release()
    _drain(pending)


def _drain(queue: deque[tuple[str, int, Callable[[], None]]]) -> None:
    if must_wait() or thread.draining:
        return
    thread.draining = True
    try:
        while queue:
            try:
                _, owner, recording = queue.popleft()
            except IndexError:  # another thread took the last one
                return
            # Recordings that waited at a fork belong to the parent.
            if owner == _process:
                with guard("deferral.record"):
                    recording()
    finally:
        thread.draining = False


def drain_in_io_thread(*, posts: bool) -> None:
    """Like :func:`drain`, for a thread that is marked for good (:func:`mark_io_thread`); with ``posts`` them too."""
    if pending or (posts and has_posts()):
        thread.inside = False
        try:
            if posts:
                drain_all()
            else:
                drain()
        finally:
            thread.inside = True


def hand_over() -> None:
    """Record what a thread that is marked for good has queued, where no I/O thread of ours does, which drains."""
    if not is_drained():
        drain_in_io_thread(posts=False)


@contextmanager
def in_callback_of_sdk() -> Iterator[None]:
    """Allow synchronous measurements in a callback that the SDK runs before it collects.

    Nothing else is safe: registering an instrument there waits for the lock that the SDK holds. So the queue is not
    drained.
    """
    before = thread.inside, thread.draining
    thread.inside, thread.draining = False, True
    try:
        yield
    finally:
        thread.inside, thread.draining = before


def mark_io_thread() -> None:
    """Mark the calling thread as ours: a finaliser that runs in it may find locks of the SDK taken."""
    thread.inside = True


threads.preparations.append(mark_io_thread)


# -- forks -----------------------------------------------------------------------------------------------------


def wait_for_ending() -> None:
    """``otel_rl.ending`` renews the SDK's state in a forked child and calls :func:`release_child` then."""
    global _released_by_ending
    _released_by_ending = True


def release_child() -> None:
    """Record again: the state of this forked child is its own now."""
    global forks, _posted_lock, _is_woken
    forks, _is_woken = 0, False
    posted.clear()
    _posted_lock = threading.Lock()  # a thread of the parent may hold the other one


def _before_fork() -> None:
    global forks
    forks += 1


def _after_fork_in_parent() -> None:
    global forks
    forks = max(forks - 1, 0)


def _after_fork_in_child() -> None:
    global _process
    _process = os.getpid()
    # The fork may come from within a marked call; only this thread goes on, and not in the SDK.
    if not _released_by_ending:
        release_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
