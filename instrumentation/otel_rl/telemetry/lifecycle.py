"""Callbacks at the first record, at a flush, before the shutdown and after a fork, for parts that cannot detect these.

:class:`~otel_rl.telemetry.scope.Scope` calls :func:`run_first_record_callbacks`. ``otel_rl.ending`` calls the others:
:func:`run_shutdown_callbacks` before its final flush, :func:`run_after_fork_callbacks` in a forked child.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from otel_rl.core.guard import guard
from otel_rl.telemetry import deferral

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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

_at_first_record: list[Callable[[], None]] = []
_before_shutdown: list[Callable[[], None]] = []
_after_fork: list[Callable[[], None]] = []
_before_flush: list[Callable[[], None]] = []
_at_intervals: list[Callable[[], None]] = []


def at_first_record(callback: Callable[[], None]) -> None:
    """Run ``callback`` when a scope is about to record; it may run several times and must be cheap."""
    if callback not in _at_first_record:
        _at_first_record.append(callback)


def run_first_record_callbacks() -> None:
    """Run the callbacks of the first record; every scope calls this when it gets its tracer."""
    global has_recorded
    has_recorded = True
    for callback in _at_first_record:
        with guard("lifecycle.first_record"):
            callback()


def before_shutdown(callback: Callable[[], None]) -> None:
    """Run ``callback`` before the final flush; later registrations run first, each guarded."""
    if callback not in _before_shutdown:
        _before_shutdown.append(callback)


def after_fork_in_child(callback: Callable[[], None]) -> None:
    """Run ``callback`` in every forked child, in order of registration. It must neither lock nor do I/O."""
    if callback not in _after_fork:
        _after_fork.append(callback)


def before_flush(callback: Callable[[], None]) -> None:
    """Run ``callback`` before each flush that the program asks for, in a signal handler too: it may only post."""
    _before_flush.append(callback)


def run_flush_callbacks() -> None:
    """Run the callbacks of a flush; what they post is recorded before it is served."""
    for callback in _before_flush:
        with guard("lifecycle.before_flush"):
            callback()


def at_intervals(callback: Callable[[], None]) -> None:
    """Run ``callback`` about once a second, on an I/O thread that runs; it must be cheap, and may only post."""
    if callback not in _at_intervals:
        _at_intervals.append(callback)


def run_interval_callbacks() -> None:
    """Run the callbacks that are due again and again."""
    for callback in _at_intervals:
        with guard("lifecycle.at_intervals"):
            callback()


def run_shutdown_callbacks() -> None:
    """Run each registered callback once; the second call finds none left."""
    global is_ending
    is_ending = True
    deferral.drain_all()
    while _before_shutdown:
        callback = _before_shutdown.pop()
        with guard("lifecycle.before_shutdown"):
            callback()
    deferral.drain_all()


def run_after_fork_callbacks() -> None:
    """Run the callbacks after a fork, in the child."""
    for callback in _after_fork:
        with guard("lifecycle.after_fork"):
            callback()


def _count_fork() -> None:
    global forks, is_ending
    forks += 1
    is_ending = False


# Also where nothing of ``otel_rl.ending`` follows the forks, as in a program that sets up its own SDK.
os.register_at_fork(after_in_child=_count_fork)
