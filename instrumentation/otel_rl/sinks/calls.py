"""The thread that calls the program's sinks, and a queue for each.

Not one of the two I/O threads: a sink is code of the program and may never return, and then those would deliver nothing
more. So sinks have a thread of their own, which begins with the first sink. While a sink does not return, a successor
of the thread calls the others: there is one thread, and one more for each sink that hangs.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_rl.core import addresses, instrumentor_status
from otel_rl.core.guard import count_error, guard
from otel_rl.core.threads import Wakeup, allocate_lock, prepare_thread, signals_of_main_thread, start_new_thread
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.sinks.protocol import RunEnded, RunStarted, SinkStatus, StepEnded
from otel_rl.telemetry import drops
from otel_rl.telemetry.attribute_values import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.sinks.protocol import StepSink

#: Steps that wait for one sink; of more the oldest is dropped.
MAXIMUM_WAITING = 256
#: Seconds after which a sink that has not returned counts as hanging; the end of the process has less time.
HANGS, HANGS_AT_END = 5.0, 0.5
#: Seconds for which a sink that has many steps is called before it is the turn of the next one.
_TURN = 0.05
_LONGEST_SLEEP = 60.0
_LONGEST_DETAIL = 1024
_METHODS: dict[type, str] = {RunStarted: "run_started", StepEnded: "step_ended", RunEnded: "run_ended"}


class SinkQueue:
    """One sink, what waits for it, and what became of its calls."""

    def __init__(self, name: str, sink: StepSink) -> None:
        self.name = name
        self.sink = sink
        self.waiting: deque[StepEnded | RunEnded] = deque(maxlen=MAXIMUM_WAITING)
        self.has_started = False
        self.counts = {"delivered": 0, "failed": 0, "dropped": 0}
        #: What the latest call failed with; empty after one that did not.
        self.error = ""
        self.told = SinkStatus(name)
        #: The method that is being called, and since when (``time.monotonic()``); None between calls.
        self.call: tuple[str, float] | None = None
        #: It has been reported as hanging.
        self.was_slow = False

    def put(self, item: StepEnded | RunEnded) -> None:
        """Queue ``item``; in place of the oldest one where there is no room."""
        if len(self.waiting) == MAXIMUM_WAITING:
            self.drop("sink_full", 1)
        self.waiting.append(item)

    def give_up(self) -> None:
        """Drop what waits: the time is up, or the sink has been removed."""
        self.drop("sink_ended", len(self.waiting))
        self.waiting.clear()

    def drop(self, reason: str, number: int) -> None:
        """Count items that it does not get."""
        self.counts["dropped"] += number
        drops.count(Signal.STEPS, reason, number)

    @property
    def open_for(self) -> float:
        """Seconds since the call that has not returned; 0 between calls."""
        call = self.call
        return 0.0 if call is None else time.monotonic() - call[1]

    @property
    def is_unfinished(self) -> bool:
        """True while it is called or has something to get, unless it has been hanging for long."""
        return self.open_for < HANGS and (self.call is not None or bool(self.waiting))

    def make(self, method: str, argument: Any) -> None:
        """Call ``method`` of the sink, then ask for its status."""
        self.call = method, time.monotonic()
        try:
            # Its threads and processes inherit what is blocked.
            with signals_of_main_thread():
                getattr(self.sink, method)(argument)
                told = self.sink.status()
            detail = text(str(told.detail), _LONGEST_DETAIL)
            self.told = SinkStatus(str(told.name), bool(told.enabled), bool(told.available), detail)
            self.counts["delivered"] += 1
            self.error = ""
        except BaseException as error:  # noqa: BLE001 - a sink of anybody's, which may also call sys.exit()
            self.counts["failed"] += 1
            self.error = addresses.without_secrets(text(f"{type(error).__name__}: {error}", _LONGEST_DETAIL))
            count_error("sinks", error, f'the sink "{self.name}" of the program')
            self.report(f"{self.counts['failed']} of its calls failed, the latest with {type(error).__name__}")
        finally:
            self.call = None
            if self.was_slow and not self.error:
                # It has returned after all.
                self.was_slow = False
                instrumentor_status.report(f"sink {self.name}", instrumentor_status.ACTIVE)

    def report_hanging(self) -> None:
        """Name it in the last line and in ``otel-rl doctor``, if it is in a call."""
        if self.call is not None:
            self.was_slow = True
            self.report(f"{self.call[0]} has not returned for {self.open_for:.1f} s")

    def report(self, reason: str) -> None:
        """Name it in the last line and in ``otel-rl doctor``."""
        instrumentor_status.report(f"sink {self.name}", instrumentor_status.DEGRADED, reason)

    def status(self) -> dict[str, Any]:
        """Return its state; ``unavailable_since`` in seconds since the epoch while it hangs."""
        seconds, told = self.open_for, self.told
        hangs = seconds >= HANGS
        return {
            "name": self.name,
            "enabled": told.enabled,
            "available": told.available and not self.error and not hangs,
            "detail": "it has not returned" if hangs else self.error or told.detail,
            "unavailable_since": time.time() - seconds if hangs else None,
            "queued": len(self.waiting),
            **self.counts,
        }


class SinkThread:
    """Calls the sinks of :attr:`queues` in turn."""

    #: Of the thread that calls; one with another number ends.
    _number = 0

    def __init__(self, run: Callable[[], RunStarted], may_call: Callable[[], bool]) -> None:
        """Begin each sink with what ``run`` returns, once ``may_call``."""
        self._run = run
        self._may_call = may_call
        self.reset()

    def reset(self) -> None:
        """Start without sinks and threads, as in a forked child."""
        self.queues: dict[str, SinkQueue] = {}
        self._current: SinkQueue | None = None
        self._number, self._is_running = self._number + 1, False
        self._starting = allocate_lock()
        self.patience = HANGS
        self._wakeup, self._idle = Wakeup(), Wakeup()

    def put(self, item: StepEnded | RunEnded) -> None:
        """Queue ``item`` for every sink."""
        for queue in tuple(self.queues.values()):
            # What one sink changes in its dictionaries is no other's.
            copies: dict[str, Any] = {
                name: dict(value) for name, value in vars(item).items() if isinstance(value, dict)
            }
            queue.put(replace(item, **copies))
        self.wake()

    def wake(self) -> None:
        """Let the thread look at the queues; start it, or a successor where a sink has not returned in time."""
        self._look()
        self._wakeup.set()

    def _look(self) -> None:
        current = self._current
        hangs = current is not None and current.open_for >= self.patience
        if self.queues and (hangs or not self._is_running) and self._starting.acquire(blocking=False):
            try:
                if current is not None:
                    current.report_hanging()
                self._start()
            finally:
                self._starting.release()

    def _start(self) -> None:
        self._number, self._current, self._is_running = self._number + 1, None, True
        try:
            start_new_thread(self._work, (self._number,))
        except RuntimeError:
            # The system refuses a thread: what waits is dropped and counted, unless one starts later.
            self._is_running = False

    def _work(self, number: int) -> None:
        # Not one of the names by which threads of ours are known: what a sink costs is the program's.
        prepare_thread("sinks-otel-rl")
        while number == self._number:
            with guard("sinks.thread"):
                while self._may_call() and self._serve(number):
                    pass
            self._idle.set()
            if number == self._number:
                self._wakeup.wait(_LONGEST_SLEEP)
        # A call has returned after all: from here on that sink is the successor's.
        self._wakeup.set()

    def _serve(self, number: int) -> bool:
        """Call each sink that has something to get; return whether there was any."""
        made = False
        for queue in tuple(self.queues.values()):
            until = time.monotonic() + _TURN
            # One that hangs is in a call of another thread.
            while number == self._number and queue.call is None and (queue.waiting or not queue.has_started):
                item = queue.waiting.popleft() if queue.has_started else self._run()
                made, self._current, queue.has_started = True, queue, True
                queue.make(_METHODS[type(item)], item)
                if number == self._number:
                    self._current = None
                if time.monotonic() >= until:
                    break
        return made

    def finish(self, seconds: float) -> None:
        """Hand out what waits within ``seconds``, and end the thread; what is left is dropped and counted."""
        deadline, self.patience = time.monotonic() + seconds, HANGS_AT_END
        while any(queue.is_unfinished for queue in tuple(self.queues.values())) and time.monotonic() < deadline:
            self._idle.wait(min(HANGS_AT_END / 2, deadline - time.monotonic()))
            self._look()
        for queue in tuple(self.queues.values()):
            queue.report_hanging()
            queue.give_up()
        self._number += 1
        self._wakeup.set()
