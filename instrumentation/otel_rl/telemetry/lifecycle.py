"""Callbacks at the first record, at a flush, before the shutdown and after a fork, for parts that cannot detect these.

:class:`~otel_rl.telemetry.scope.Scope` calls :func:`run_first_record_callbacks`. ``otel_rl.ending`` calls the others:
:func:`run_shutdown_callbacks` before its final flush, :func:`run_after_fork_callbacks` in a forked child.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from otel_rl.core.guard import guard
from otel_rl.telemetry import deferral

if TYPE_CHECKING:
    from collections.abc import Sequence


class Delivery(Protocol):
    """A delivery that an I/O thread makes."""

    @property
    def is_over(self) -> bool:
        """True when it has been made, or its time has passed."""

    def wait(self) -> bool:
        """Wait until it is over; False if it has failed or its time has passed."""


def _nothing_to_wait_for(_: float = 0.0) -> Sequence[Delivery]:
    return ()


#: How many forks lie between this process and the first one: what a process above has begun is not ours to end.
forks = 0
#: The process is ending: what has not begun by now must not begin.
is_ending = False
#: A scope of this process has recorded something.
has_recorded = False

#: Has what is new delivered, and returns what to wait for; for a worker that may be killed after any call. Takes the
#: seconds of the call that ends.
deliver_news: Callable[..., Sequence[Delivery]] = _nothing_to_wait_for
#: Prepares for that before the first call: the import of an exporter takes longer than a call may wait.
prepare_delivery: Callable[[], object] = tuple
#: This process is such a worker: what ends beside its calls is delivered at once, too.
may_be_killed = False


class Callbacks(list[Callable[[], None]]):
    """What registers for a moment, in that order and once each. Each call is guarded."""

    def __init__(self, moment: str) -> None:
        self._guard = guard(f"lifecycle.{moment}")

    def __call__(self, callback: Callable[[], None]) -> None:
        """Register ``callback``."""
        if callback not in self:
            self.append(callback)

    def run(self) -> None:
        """Run all of them."""
        for callback in self:
            with self._guard:
                callback()


#: When a scope is about to record; they may run several times and must be cheap.
at_first_record = Callbacks("first_record")
#: Before the final flush; later registrations run first.
before_shutdown = Callbacks("before_shutdown")
#: In every forked child. They must neither lock nor do I/O.
after_fork_in_child = Callbacks("after_fork")
#: Before each flush that the program asks for, in a signal handler too: they may only post. What they post is recorded
#: before the flush is served.
before_flush = Callbacks("before_flush")
#: About once a second, on an I/O thread that runs; they must be cheap, and may only post.
at_intervals = Callbacks("at_intervals")

run_after_fork_callbacks = after_fork_in_child.run
run_flush_callbacks = before_flush.run
run_interval_callbacks = at_intervals.run


def run_first_record_callbacks() -> None:
    """Run the callbacks of the first record; every scope calls this when it gets its tracer."""
    global has_recorded
    has_recorded = True
    at_first_record.run()


def run_shutdown_callbacks() -> None:
    """Run each registered callback once; the second call finds none left."""
    global is_ending
    is_ending = True
    deferral.drain_all()
    while before_shutdown:
        callback = before_shutdown.pop()
        with guard("lifecycle.before_shutdown"):
            callback()
    deferral.drain_all()


def _count_fork() -> None:
    global forks, is_ending
    forks += 1
    is_ending = False


# Also where nothing of ``otel_rl.ending`` follows the forks, as in a program that sets up its own SDK.
os.register_at_fork(after_in_child=_count_fork)
