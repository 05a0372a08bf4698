"""Event loops of asyncio: how late they are, and which code blocks them; the stack is taken while it does.

The program is left as it is: nothing of asyncio is patched, and a loop that waits for something to do is not woken. A
thread looks at the stack of the loop's thread 20 to 40 times a second. Only where the loop is at work is it asked to
call us back, and by then it is awake. How late that call comes is the lag. A loop that does not run is not watched.

Modules, each importing only those below it:
    thread: the thread, and the loops that it looks at.
    reports: the event of a block, and the metrics.
    loop: one loop: since when the same code runs in it.
    blocks: what is known of one stretch of code that runs: seconds, task, stacks.
    ping: the call that a loop is asked to make.
    stacks: where the thread of a loop is, and which function of the program.
    thread_time: time of the loop's thread that was no fault of its code: stopped, or without a CPU.
"""

from __future__ import annotations

# What the thread needs of the system, by name before gevent can patch it: its own would run in a hub that hangs.
from _thread import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any

from otel_rl.core import instrumentor_status, settings
from otel_rl.core.guard import Loading
from otel_rl.telemetry import lifecycle, progress

if TYPE_CHECKING:
    from otel_rl.event_loops.thread import EventLoopWatch

__all__ = ["arm", "end", "get_ident", "monotonic"]

_event_loops: EventLoopWatch | None = None
_loading = Loading()


def arm() -> None:
    """Watch the event loops of this process from the first operation in one on, unless that is switched off."""
    if settings.current().event_loop_seconds > 0:
        progress.watch_event_loops(_first_event_loop)
        lifecycle.after_fork_in_child(_forked)


def end() -> None:
    """End the thread; a further event loop starts another."""
    if _event_loops is not None:
        _event_loops.end()


def _first_event_loop(loop: Any) -> None:
    global _event_loops
    if _loading.is_here:
        return
    try:
        with _loading:
            from otel_rl.event_loops.thread import EventLoopWatch  # noqa: PLC0415 - few processes have a loop
    except Exception as error:  # noqa: BLE001 - whatever an audit hook raises
        instrumentor_status.report_unloadable("event_loops", error, "event loops are not watched")
        # Where nothing more can be imported it is not tried a second time, and the call goes on.
        progress.watch_event_loops(None)
        return
    _event_loops = EventLoopWatch(settings.current().event_loop_seconds)
    progress.watch_event_loops(_event_loops.notice)
    _event_loops.notice(loop)


def _forked() -> None:
    """Drop the thread of the parent; the child starts one with its own first event loop."""
    global _event_loops
    if _event_loops is not None:
        _event_loops = None
        progress.watch_event_loops(_first_event_loop)
