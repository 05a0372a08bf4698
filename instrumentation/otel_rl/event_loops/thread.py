"""The thread that looks at the event loops of a process, and the loops that it knows.

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
#: The thread looks so often within its limit while a loop is at work, since it must see a block several times, and half
#: as often while all loops wait; at least every so many seconds.
_LOOKS, _LONGEST_SLEEP = 8, 0.05
#: Seconds to sleep while no loop runs; the next loop wakes the thread.
_IDLE = 60.0
#: Most loops that are watched at once.
_MOST_LOOPS = 64


class EventLoopWatch:
    """Of one process."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._interval = min(limit / _LOOKS, _LONGEST_SLEEP)
        self._watched: dict[int, WatchedLoop] = {}
        now = monotonic()
        self._reports = Reports(now)
        self._gil_waits = 0
        self._ends = False
        self._thread = PeriodicThread(NAME, self._interval, self._look)

    def notice(self, loop: Any) -> None:
        """An operation begins in ``loop``, which runs in this thread. On the way of each model call."""
        found = self._watched.get(id(loop))
        if found is None or not found.is_of(loop):
            self._watch(loop)

    def _watch(self, loop: Any) -> None:
        # A loop of others may not be what asyncio expects of one.
        with guard("event_loops.watch"), suppress(*UNUSABLE):
            if len(self._watched) < _MOST_LOOPS:
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
            return _IDLE
        return self._interval * (1 if any(one.is_at_work for one in list(self._watched.values())) else 2)
