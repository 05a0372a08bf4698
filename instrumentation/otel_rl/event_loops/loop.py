"""One event loop that runs: what it does at each look, since when, and how late it is."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from otel_rl.event_loops import get_ident, stacks
from otel_rl.event_loops.blocks import Running
from otel_rl.event_loops.ping import Ping
from otel_rl.event_loops.thread_time import ThreadTime
from otel_rl.telemetry import progress

if TYPE_CHECKING:
    from otel_rl.event_loops.reports import Reports
    from otel_rl.event_loops.thread_time import ThreadInterval

#: Most looks that wait for the answer of a loop and become samples of its lag.
_MAXIMUM_LOOKS = 4096
#: What a loop raises that is closed, or none of asyncio.
UNUSABLE = (RuntimeError, TypeError, AttributeError)
#: Seconds after which a block is reported while it lasts.
ONGOING = 10.0


class WatchedLoop:
    """Made in the loop's thread; :meth:`look` is called by ours. It keeps no reference to the loop."""

    def __init__(self, loop: Any, now: float) -> None:
        self._reference = weakref.ref(loop)
        self._id = id(loop)
        self._thread = get_ident()
        self._time = ThreadTime()
        self._ping: Ping | None = None
        #: Time of the looks that wait for the answer to the ping.
        self._asked: list[float] = []
        self._under = 0
        #: The last look, and the time up to then without that in which the process was stopped.
        self._looked = now
        self._passed = 0.0
        self._running: Running | None = None
        #: Blocks that are to be reported.
        self._ended: list[Running] = []
        self._limit = self._interval = 0.0
        call = stacks.call_of(self._thread, 0)
        if call is not None and not call.is_certain:
            # A loop in C: its answer shows where it ends and a call begins.
            self._ping = Ping()
            self._ping.send(loop)

    def is_of(self, loop: Any) -> bool:
        """Return whether it was made for this loop and thread; another loop may have the id of one that is gone."""
        return self._reference() is loop and self._thread == get_ident()

    @property
    def is_at_work(self) -> bool:
        """Whether the loop has been asked, and has not answered."""
        return self._ping is not None

    def look(self, now: float, interval: float, limit: float, gil_waits: int, reports: Reports) -> bool:
        """Look where the loop is, and report blocks of ``limit`` seconds; return False when it runs no more."""
        self._limit, self._interval = limit, interval
        loop = self._reference()
        if not _runs(loop):
            self.leave(reports)
            return False
        stretch = self._time.stretch(now - self._looked, interval, gil_waits)
        came_round = self._take_answer(stretch, reports)
        self._see(loop, now, stretch, came_round, reports)
        # Not before: while a user's redaction works, no frame of the program may be held.
        self._report(reports)
        self._looked = now
        self._passed += stretch.seconds
        return True

    def leave(self, reports: Reports) -> None:
        """Report what blocked the loop last: the loop or the process has ended."""
        self._end()
        self._report(reports)

    def _take_answer(self, stretch: ThreadInterval, reports: Reports) -> float | None:
        """Return when the loop has come round since the last look, as far as it has answered."""
        ping = self._ping
        answered = ping.answered if ping is not None else None
        if ping is None or answered is None:
            return None
        self._ping, self._under = None, ping.under
        # While the process was stopped, nothing was late.
        after_look = min(answered - self._looked, stretch.seconds)
        reports.lags.extend(max(self._passed + after_look - asked, 0.0) for asked in self._asked)
        self._asked.clear()
        if self._running is not None:
            self._running.add(after_look, stretch)
        self._end()
        return answered

    def _see(self, loop: Any, now: float, stretch: ThreadInterval, came_round: float | None, reports: Reports) -> None:
        """Look at the stack. What is found of the program is held no longer than this takes."""
        call = stacks.call_of(self._thread, self._under)
        if call is None:
            if self._ping is None:
                # While loops wait, the looks are further apart.
                reports.lags += [0.0] * max(round(stretch.seconds / self._interval), 1)
            return
        ping = self._ask(loop)
        if ping is None:
            return
        if len(self._asked) < _MAXIMUM_LOOKS:
            self._asked.append(self._passed + stretch.seconds)
        task, running = asyncio.current_task(loop), self._running
        is_same = running is not None and running.is_same(task, call)
        if running is None or not is_same:
            self._end()
            self._running = running = Running(task, call, ping)
            self._time.begin()
            # It began after the last look, or after the loop came round.
            running.add(min(now - max(self._looked, came_round or 0.0), stretch.seconds), stretch)
        else:
            running.add(stretch.seconds - self._time.without_cpu(stretch), stretch)
        if is_same or stretch.held_gil:
            running.see(call)
            self._count(running)

    def _ask(self, loop: Any) -> Ping | None:
        """Return the ping that waits for its answer; None where the loop takes none, as one that is being closed."""
        if self._ping is None:
            ping = Ping()
            with suppress(*UNUSABLE):
                ping.send(loop)
                self._ping = ping
        return self._ping

    def _count(self, running: Running) -> None:
        """Count what waits, as soon as it has taken long. One that was seen once may have ended soon after that."""
        if running.waiting is None and running.is_confirmed and running.seconds >= self._limit:
            running.waiting = (
                progress.open_in_event_loop(progress.ROLLOUTS, self._id),
                progress.open_in_event_loop(progress.MODEL_CALLS, self._id),
            )

    def _end(self) -> None:
        """Finish the call that the loop was seen in."""
        running, self._running = self._running, None
        if running is not None:
            self._count(running)
            if running.waiting is not None:
                self._ended.append(running)

    def _report(self, reports: Reports) -> None:
        while self._ended:
            running = self._ended.pop(0)
            reports.blocked(running.block(), number=running.reported_as)
        lasting = self._running
        if lasting is not None and not lasting.reported_as and lasting.seconds >= max(ONGOING, self._limit):
            lasting.reported_as = reports.blocked(lasting.block(), ongoing=True)


def _runs(loop: Any) -> bool:
    with suppress(*UNUSABLE):
        return loop is not None and not loop.is_closed() and bool(loop.is_running())
    return False
