"""Watchdog: a thread of each process that trains; it reports a hang while it lasts, and says when it is over.

The thread begins with the first step of a process, never in one that trains nothing, and ends with the process. Another
thread watches the event loops of asyncio; it begins with the first operation in one.

Modules, each importing only those below it:
    event_loops: event loops that are late, and the code that blocks them.
    thread: what the thread does when it wakes: compare, judge, report.
    reports: the event with the stacks of all threads, and the line on stderr.
    open_operations: the step, phase and collective that the process is in.
    peers: the other ranks of this node, as their rings tell.
    stacks: what each thread does, as text and as a reason to wait longer.
    step_times: how long steps take, and so how long one may go without progress.
"""

from __future__ import annotations

# What the thread needs of the system, by name before gevent can patch it: its own would run in a hub that hangs.
from _thread import get_ident
from select import POLLOUT, poll
from time import monotonic
from typing import TYPE_CHECKING, Any

from otel_rl import instrumentor_status, settings
from otel_rl.internal_errors import Loading, raised_by_signal_handler
from otel_rl.telemetry import lifecycle, progress
from otel_rl.training import steps

if TYPE_CHECKING:
    from otel_rl.training.steps import Step
    from otel_rl.watchdog.event_loops.thread import EventLoops
    from otel_rl.watchdog.thread import Watchdog

__all__ = ["POLLOUT", "arm", "end", "get_ident", "monotonic", "poll"]

_watchdog: Watchdog | None = None
_event_loops: EventLoops | None = None
_loading = Loading()


def arm() -> None:
    """Watch this process from its first step on, unless the user has switched that off."""
    if settings.current().hang_seconds > 0:
        steps.add_opener(_step_began)
        steps.add_contributor(_step_ends)
        lifecycle.after_fork_in_child(_forked)
    if settings.current().event_loop_seconds > 0:
        progress.watch_event_loops(_first_event_loop)
        lifecycle.after_fork_in_child(_forked)


def end() -> None:
    """End the threads, before the open steps are closed, which is no progress; further steps or loops start others."""
    global _watchdog
    if _event_loops is not None:
        _event_loops.end()
    watchdog, _watchdog = _watchdog, None
    if watchdog is not None:
        watchdog.end()


def _step_began(step: Step) -> None:
    watchdog = _watchdog or _make()
    if watchdog is not None:
        watchdog.times.began(step)
        watchdog.start()


def _step_ends(step: Step) -> None:
    if _watchdog is not None:
        _watchdog.times.ended(step)


def _make() -> Watchdog | None:
    global _watchdog
    if _loading.is_here:
        return None
    try:
        with _loading:
            from otel_rl.watchdog.thread import Watchdog  # noqa: PLC0415 - most processes train nothing
    except Exception as error:  # noqa: BLE001 - whatever an audit hook raises
        _skip("watchdog", error, "no watch for hangs")
        steps.remove_opener(_step_began)
        return None
    _watchdog = Watchdog(settings.current().hang_seconds)
    return _watchdog


def _first_event_loop(loop: Any) -> None:
    global _event_loops
    if _loading.is_here:
        return
    try:
        with _loading:
            from otel_rl.watchdog.event_loops.thread import EventLoops  # noqa: PLC0415 - few processes have a loop
    except Exception as error:  # noqa: BLE001 - as above
        _skip("event_loops", error, "event loops are not watched")
        progress.watch_event_loops(None)
        return
    _event_loops = EventLoops(settings.current().event_loop_seconds)
    progress.watch_event_loops(_event_loops.notice)
    _event_loops.notice(loop)


def _skip(name: str, error: Exception, loss: str) -> None:
    """Where nothing more can be imported nobody asks again, and the step or call goes on."""
    if raised_by_signal_handler(error):
        raise error
    reason = f"could not be loaded ({type(error).__name__}: {error}): {loss}"
    instrumentor_status.report(name, instrumentor_status.SKIPPED, reason)


def _forked() -> None:
    """The threads are the parent's; the child gets them with its own first step and its own first event loop."""
    global _watchdog, _event_loops
    _watchdog = None
    if _event_loops is not None:
        _event_loops = None
        progress.watch_event_loops(_first_event_loop)
