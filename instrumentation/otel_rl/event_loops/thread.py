"""The thread that looks at the event loops of a process, and the loops that it watches.

It begins with the first operation in an event loop and sleeps while no loop runs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from otel_rl.core.guard import guard
from otel_rl.core.threads import PeriodicThread
from otel_rl.event_loops import monotonic
from otel_rl.event_loops.loop import UNUSABLE, WatchedLoop
from otel_rl.event_loops.reports import Reports
from otel_rl.event_loops.thread_time import given_up

NAME = "otel-rl-event-loop"
#: Looks within the limit while a loop is at work: a block must be seen several times. Half as many while loops wait.
_LOOKS_PER_LIMIT = 8
#: Longest interval between two looks, in seconds.
_LONGEST_INTERVAL = 0.05
#: Seconds to sleep while no loop runs; the next loop wakes the thread.
_IDLE_SECONDS = 60.0
#: Most loops that are watched at once.
_MAXIMUM_LOOPS = 64


class EventLoopWatch:
    """Watches the event loops of one process."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._interval = min(limit / _LOOKS_PER_LIMIT, _LONGEST_INTERVAL)
        self._watched: dict[int, WatchedLoop] = {}
        now = monotonic()
        self._reports = Reports(now)
        self._gil_waits = 0
        self._ends = False
        self._thread = PeriodicThread(NAME, self._interval, self._look)

    def notice(self, loop: Any) -> None:
        """Watch ``loop``, which runs in this thread; called with each operation in it, such as a model call."""
        watched = self._watched.get(id(loop))
        if watched is None or not watched.is_of(loop):
            self._watch(loop)

    def _watch(self, loop: Any) -> None:
        # A loop of others may not be what asyncio expects of one.
        with guard("event_loops.watch"), suppress(*UNUSABLE):
            if len(self._watched) < _MAXIMUM_LOOPS:
                self._watched[id(loop)] = WatchedLoop(loop, monotonic())
                self._ends = False
                self._thread.start()
                self._thread.wake()

    def end(self) -> None:
        """End the thread; it looks a last time. Another operation in a loop starts it again."""
        self._ends = True
        self._thread.end()

    def _look(self) -> float:
        now, waits = monotonic(), given_up()
        gil_waits, self._gil_waits = waits - self._gil_waits, waits
        for key, watched in list(self._watched.items()):
            runs = False
            with guard("event_loops.look"):
                runs = watched.look(now, self._interval, self._limit, gil_waits, self._reports)
                if self._ends:
                    watched.leave(self._reports)
            # Its thread may have put another one there.
            if (not runs or self._ends) and self._watched.get(key) is watched:
                del self._watched[key]
        self._reports.turn(now, last=self._ends or not self._watched)
        if not self._watched:
            return _IDLE_SECONDS
        return self._interval * (1 if any(watched.is_at_work for watched in list(self._watched.values())) else 2)
