"""Watchdog: a thread of each process that trains or rolls out; it reports a hang while it lasts, and when it is over.

The thread begins with the first step of a process, or its first call in a rollout, and ends with the process. Before
that it begins and ends with parts of the run that may take long and in which a program does not fork: rendezvous,
models, tokenizers, checkpoints, and the first batches of loaders with workers, which are made before these.

Modules, each importing only those below it:
    thread: what the thread does when it wakes: compare, judge, report.
    parts: rendezvous, what loads, and the wait for a batch, where they take long.
    calls: tools, models and services that do not return.
    call_list: the list of them that outlives the process.
    call_reports: the events of such a call, and their lines.
    call_limits: how long a call may be open.
    call_places: in which function it waits.
    reports: the event with the stacks of all threads, the line on stderr, the gauge.
    open_operations: the step, phase and collective that the process is in.
    waits_between_steps: ranks that wait for each other where no step is open.
    peers: the other ranks of this node, as their rings tell.
    stacks: what each thread does, as text and as a reason to wait longer.
    step_times: how long steps take, and so how long one may go without progress.
"""

from __future__ import annotations

# What the thread needs of the system, by name before gevent can patch it: its own would run in a hub that hangs.
from _thread import allocate_lock, get_ident
from select import POLLOUT, poll
from time import monotonic
from typing import TYPE_CHECKING

from otel_rl.core import instrumentor_status, settings
from otel_rl.core.guard import Loading
from otel_rl.telemetry import lifecycle, progress
from otel_rl.training import steps

if TYPE_CHECKING:
    from otel_rl.ranks.watchdog.thread import Watchdog
    from otel_rl.telemetry.progress import OpenCall, OpenPart
    from otel_rl.training.steps import Step

__all__ = ["POLLOUT", "arm", "end", "get_ident", "monotonic", "poll"]

_watchdog: Watchdog | None = None
#: A watchdog has seen a step.
_watched = False
#: The gauge is exported. It is 0 after the watchdog's end, so that no process that ended in a hang leaves it at 1.
_is_shown = False
#: The thread runs for an open part of the run alone.
_only_for_parts = False
_loading = Loading()
#: Held by the thread that makes the watchdog: rollouts may begin in many at once.
_making = allocate_lock()


def arm() -> None:
    """Watch this process from its first step on, unless the user has switched that off."""
    if settings.current().hang_seconds > 0:
        steps.openers.add(_step_began)
        steps.contributors.add(_step_ends)
        progress.watch_calls(_call_began)
        progress.watch_parts((_part_began, _part_ended))
        lifecycle.after_fork_in_child(_forked)


def end() -> None:
    """End the thread, before the open steps are closed, which is no progress; a further step starts another."""
    global _watchdog
    watchdog, _watchdog = _watchdog, None
    if watchdog is not None:
        watchdog.end()
    # A call of an exit handler begins no thread that nobody would end.
    progress.calls_are_seen()


def _step_began(step: Step) -> None:
    global _watched
    watchdog = _watchdog or _make()
    if watchdog is not None:
        if not _watched:
            _watched = True
            _keep()
            show_gauge()
        watchdog.times.began(step)
        watchdog.start()


def _call_began(call: OpenCall) -> None:
    """Watch from the first call in a rollout on; a program without rollouts and steps has nobody who waits."""
    state = call.state()
    if state is not None and state.trajectory is not None:
        watchdog = _watchdog or _make()
        if watchdog is not None:
            _keep()
            watchdog.start()


def _keep() -> None:
    """Let the thread run until the process ends: what it watches is not over with a part."""
    global _only_for_parts
    from otel_rl.ranks.watchdog import call_places  # noqa: PLC0415 - loaded by now

    _only_for_parts = False
    progress.calls_are_seen()
    progress.sign_frames(call_places.sign)


def _part_began(_: OpenPart) -> None:
    """Watch while a part of the run is open."""
    global _only_for_parts
    if _watchdog is None and not lifecycle.is_ending:
        watchdog = _make()
        if watchdog is not None:
            _only_for_parts = True
            watchdog.start()


def _part_ended(part: OpenPart, failed: bool) -> None:
    global _watchdog, _only_for_parts
    if _only_for_parts and not progress.open_parts():
        watchdog, _watchdog, _only_for_parts = _watchdog, None, False
        if watchdog is not None:
            watchdog.end()
            watchdog.rest()
    if part.told_at:
        from otel_rl.ranks.watchdog import parts  # noqa: PLC0415 - the thread has loaded it

        parts.over(part, failed=failed)


def _step_ends(step: Step) -> None:
    if _watchdog is not None:
        _watchdog.times.ended(step)


def _make() -> Watchdog | None:
    global _watchdog
    if _loading.is_here or not _making.acquire(blocking=False):
        return None
    try:
        if _watchdog is None:
            _watchdog = _loaded()
    finally:
        _making.release()
    return _watchdog


def _loaded() -> Watchdog | None:
    try:
        with _loading:
            from otel_rl.ranks.watchdog import call_places, reports  # noqa: F401, PLC0415 - most processes train nothing
            from otel_rl.ranks.watchdog.thread import Watchdog  # noqa: PLC0415
    except Exception as error:  # noqa: BLE001 - whatever an audit hook raises
        instrumentor_status.report_unloadable("watchdog", error, "no watch for hangs")
        # Where nothing more can be imported nobody asks again, and the step goes on.
        steps.openers.remove(_step_began)
        progress.watch_calls(None)
        progress.watch_parts(None)
        return None
    return Watchdog(settings.current().hang_seconds)


def show_gauge() -> None:
    """Export whether a hang is seen: from the first step on, or the first part of the run in which nothing moves."""
    global _is_shown
    if not _is_shown:
        from otel_rl.ranks.watchdog import reports  # noqa: PLC0415 - loaded by now

        _is_shown = True
        reports.observe(_sees_hang)


def _sees_hang() -> bool | None:
    if not _is_shown:
        return None
    return _watchdog is not None and (_watchdog.sees_hang or _watchdog.parts.sees_hang)


def _forked() -> None:
    """Forget the thread, which is the parent's; the child gets one with its own first step."""
    global _watchdog, _watched, _is_shown, _making, _only_for_parts
    _watchdog, _watched, _is_shown, _making, _only_for_parts = None, False, False, allocate_lock(), False
    progress.watch_calls(_call_began)
