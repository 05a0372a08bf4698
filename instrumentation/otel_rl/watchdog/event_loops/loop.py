"""One event loop that runs: what it does at each look, since when, and how late it is."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

from otel_rl.telemetry import progress
from otel_rl.watchdog import get_ident
from otel_rl.watchdog.event_loops import stacks
from otel_rl.watchdog.event_loops.blocks import Running
from otel_rl.watchdog.event_loops.ping import Ping
from otel_rl.watchdog.event_loops.thread_time import ThreadTime

if TYPE_CHECKING:
    from otel_rl.watchdog.event_loops.reports import Reports
    from otel_rl.watchdog.event_loops.thread_time import Stretch

#: Most looks that wait for the answer of a loop to be told as its lag.
_LOOKS = 4096
#: Seconds after which a block is reported while it lasts.
ONGOING = 10.0


class WatchedLoop:
    """Made in the loop's thread; :meth:`look` is called by ours. It keeps no reference to the loop."""

    def __init__(self, loop: Any, limit: float, now: float) -> None:
        self._reference = weakref.ref(loop)
        self._id = id(loop)
        self._limit = limit
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
        call = stacks.call_of(self._thread, 0)
        if call is not None and not call.is_certain:
            # A loop in C: its answer tells where it ends and a call begins.
            self._ping = Ping()
            self._ping.send(loop)

    def is_of(self, loop: Any) -> bool:
        """True for the loop it was made for, in its thread; another loop may have the id of one that is gone."""
        return self._reference() is loop and self._thread == get_ident()

    @property
    def is_at_work(self) -> bool:
        """True where the loop has been asked, and has not answered."""
        return self._ping is not None

    def look(self, now: float, interval: float, gil_waits: int, reports: Reports) -> bool:
        """Look where the loop is, and report; False when it runs no more."""
        loop = self._reference()
        if loop is None or loop.is_closed() or not loop.is_running():
            self.leave(reports)
            return False
        stretch = self._time.stretch(now - self._looked, interval, gil_waits)
        came_round = self._take_answer(stretch, reports)
        self._see(loop, now, stretch, came_round, reports)
        self._looked = now
        self._passed += stretch.seconds
        return True

    def leave(self, reports: Reports) -> None:
        """The loop or the process has ended: what blocked the loop last is reported as it is."""
        running, self._running = self._running, None
        if running is not None:
            self._end(running, reports)

    def _take_answer(self, stretch: Stretch, reports: Reports) -> float | None:
        """When the loop has come round since the last look, as far as it has told."""
        ping = self._ping
        answered = ping.answered if ping is not None else None
        if ping is None or answered is None:
            return None
        self._ping, self._under = None, ping.under
        # While the process was stopped, nothing was late.
        after_look = min(answered - self._looked, stretch.seconds)
        reports.lags.extend(max(self._passed + after_look - asked, 0.0) for asked in self._asked)
        self._asked.clear()
        running, self._running = self._running, None
        if running is not None:
            running.add(after_look, stretch)
            self._end(running, reports)
        return answered

    def _see(self, loop: Any, now: float, stretch: Stretch, came_round: float | None, reports: Reports) -> None:
        call = stacks.call_of(self._thread, self._under)
        if call is None:
            if self._ping is None:
                reports.lags.append(0.0)
            return
        if self._ping is None:
            self._ping = Ping()
            self._ping.send(loop)
        if len(self._asked) < _LOOKS:
            self._asked.append(self._passed + stretch.seconds)
        task = asyncio.current_task(loop)
        running = self._running
        if running is not None and running.is_same(task, call):
            running.add(stretch.seconds - self._time.without_cpu(stretch), stretch)
            running.see(call)
            self._judge(running, reports)
            return
        if running is not None:
            self._end(running, reports)
        self._running = running = Running(task, call, self._ping)
        self._time.begin()
        # It began after the last look, or after the loop came round.
        running.add(min(now - max(self._looked, came_round or 0.0), stretch.seconds), stretch)
        if stretch.held_gil:
            running.see(call)
            self._judge(running, reports)

    def _judge(self, running: Running, reports: Reports) -> None:
        self._count(running)
        if not running.told and running.seconds >= max(ONGOING, self._limit):
            running.told = reports.blocked(running.block(), ongoing=True)

    def _count(self, running: Running) -> None:
        """Count what waits, as soon as it has taken long."""
        if running.waiting is None and running.seconds >= self._limit:
            running.waiting = (
                progress.open_in_event_loop(progress.ROLLOUTS, self._id),
                progress.open_in_event_loop(progress.MODEL_CALLS, self._id),
            )

    def _end(self, running: Running, reports: Reports) -> None:
        self._count(running)
        if running.waiting is not None:
            reports.blocked(running.block(), number=running.told)
