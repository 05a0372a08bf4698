"""Bounded queues of spans and log records in front of an I/O thread.

Not the SDK's ``BatchProcessor``: that starts one thread per signal with the process and again in every forked child
(``opentelemetry.sdk._shared_internal.BatchProcessor.__init__`` and ``_at_fork_reinit``, SDK 1.44 and 1.45), and writes
to the program's log when it drops.
"""

from __future__ import annotations

import math
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from otel_rl.core.guard import guard
from otel_rl.pipeline.io_thread import FIRST_EXPORT
from otel_rl.process import child_processes
from otel_rl.telemetry import deferral, drops

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.pipeline.identity_gate import Gate
    from otel_rl.pipeline.io_thread import IoThread
    from otel_rl.pipeline.sink import Sink

Item = TypeVar("Item")
#: Retry interval in seconds while the gate is closed.
GATE_INTERVAL = 0.5
#: Seconds until the first and between later attempts during an outage, and the longest time that a destination can ask
#: for with ``Retry-After``.
_FIRST_RETRY, _LAST_RETRY, _LONGEST_WAIT = 0.5, 5.0, 30.0


@dataclass(frozen=True)
class Limits:
    """Bounds of one queue: items kept, items per export, seconds between exports.

    The SDK keeps 2,048 items. Thousands of rollouts that end together, with their tools, have more spans than that.
    """

    queue: int = 8192
    batch: int = 512
    delay: float = 5.0


@dataclass(eq=False, repr=False)
class BatchQueue(Generic[Item]):
    """Takes items from any thread; the I/O thread delivers them in batches."""

    sink: Sink
    thread: IoThread
    gate: Gate
    limits: Limits
    on_first: Callable[[], None] = lambda: None
    #: Run by the I/O thread, where it costs the program nothing.
    prepare: Callable[[Item], None] = lambda _: None
    #: Items that this one counts as in a batch.
    weigh: Callable[[Item], int] = lambda _: 1

    def __post_init__(self) -> None:
        self.signal = self.sink.signal
        # During an outage the oldest items above this number leave the queue, so that new ones have room.
        self._high_water_mark = max(self.limits.queue - self.limits.queue // 4, 1)
        # Before the metric readers, which report what became of the queues.
        self.thread.tasks.insert(0, self)
        self._reset()

    def _reset(self) -> None:
        self._queue: deque[Item] = deque()
        self._begun = False
        self._muted = False
        self._next = math.inf
        # Attempts in a row that met an outage.
        self._outages = 0
        #: Items that left the queue for the exporter, and items for which there was no room.
        self.processed = 0
        self.refused = 0

    def emit(self, item: Item) -> None:
        """Queue ``item``; waits for nothing. With a full queue the new item is dropped and counted."""
        if not self._begun:
            self._begin()
        if self._muted:
            return
        if len(self._queue) >= self.limits.queue:
            self.refused += 1
            drops.count(self.signal, "queue_full")
            return
        self._queue.append(item)
        waiting = len(self._queue)
        if not self.thread.started:
            self.thread.start()
        elif waiting >= (self._high_water_mark if self._outages else self.limits.batch):
            self.thread.wake()
            if waiting * 2 > self.limits.queue and not self._outages:
                self.thread.give_way()

    def _begin(self) -> None:
        # Set first: a signal handler of the program may record while this runs, and so may what it calls.
        self._begun = True
        self._muted = child_processes.is_data_loader_worker()
        if not self._muted:
            self._next = time.monotonic() + min(self.limits.delay, FIRST_EXPORT)
            # It may sleep until later.
            self.thread.wake()
            with guard(f"batching.{self.signal}.first"):
                self.on_first()

    @property
    def pending(self) -> bool:
        """True while items are queued or in flight, or left to the thread."""
        return bool(self._queue or self.sink.in_flight or deferral.has_posts())

    @property
    def failing(self) -> bool:
        """True when the latest export failed."""
        return self.sink.failing

    @property
    def busy(self) -> bool:
        """True while a thread exports for it."""
        return self.sink.busy

    @property
    def in_outage(self) -> bool:
        """True while the destination takes nothing; what it refused is in the queue again."""
        return self._outages > 0

    @property
    def left(self) -> int:
        """Items that wait."""
        return len(self._queue)

    def hasten(self, at: float) -> None:
        """Export at ``at`` (``time.monotonic()``) at the latest, unless an outage makes it wait."""
        if self._begun and not self._outages and at < self._next:
            self._next = at
            # It may sleep until later.
            self.thread.wake()

    def next_run(self) -> float:
        """Time of the next export; 0.0 (now) when a batch is full, or during an outage the queue."""
        if self._outages:
            return 0.0 if len(self._queue) > self._high_water_mark else self._next
        return 0.0 if len(self._queue) >= self.limits.batch and self._ready() else self._next

    def _ready(self) -> bool:
        # A half-full queue forces the gate open: exporting without a rank is better than dropping items.
        if len(self._queue) * 2 >= self.limits.queue:
            self.gate.force_open()
        return self.gate.is_open()

    def run(self) -> None:
        """Export a batch, unless the gate is closed.

        One batch per turn: while a destination hangs, the thread serves requests and other signals between batches.
        """
        now, waiting = time.monotonic(), len(self._queue)
        if self._outages and now < self._next:
            self._make_room()
            return
        self._next = now + self.limits.delay
        if not waiting:
            return
        if not self._ready():
            self._next = now + min(self.limits.delay, GATE_INTERVAL)
            return
        batch = self._take()
        if waiting > len(batch):
            self._next = now
        self._export(batch)

    def flush(self, deadline: float) -> bool:
        """Flush the queue; False when items were lost or the deadline passed."""
        return self._drain(deadline)

    def _drain(self, deadline: float) -> bool:
        # Items added meanwhile wait for the next export: under constant load the flush would never end.
        left, delivered = len(self._queue), True
        while left > 0 and self._queue:
            if time.monotonic() >= deadline:
                return False
            batch = self._take()
            left -= len(batch)
            delivered = self._export(batch) and delivered
            if self._outages:
                break
        return delivered

    def _export(self, batch: list[Item]) -> bool:
        if not batch:
            self.sink.let_go()
            return True
        self.processed += len(batch)
        delivered = self.sink.export(batch)
        if self.sink.in_outage:
            self.processed -= len(batch)
            self._put_back(batch)
        elif self._outages:
            self._outages = 0
            # What has waited follows at once.
            self._next = time.monotonic()
        return delivered

    def _put_back(self, batch: list[Item]) -> None:
        """Put a batch that an outage refused to the head of the queue again, and wait."""
        self._queue.extendleft(reversed(batch))
        wait = min(_FIRST_RETRY * 2**self._outages, _LAST_RETRY)
        self._outages = min(self._outages + 1, 10)
        # All ranks meet the same outage: they must not come back at the same moment.
        wait *= 1 + time.monotonic_ns() % 1000 / 4000
        self._next = time.monotonic() + max(wait, min(self.sink.retry_after, _LONGEST_WAIT))
        self._make_room()

    def _make_room(self) -> None:
        """Take the oldest out of a queue that fills up during an outage: into files, or they are lost."""
        while len(self._queue) > self._high_water_mark:
            batch = self._take()
            if self.sink.let_go() and not self.sink.put_aside(batch):
                self.sink.lose("queue_full", len(batch))

    def _take(self) -> list[Item]:
        """Take items for one export out of the queue."""
        batch: list[Item] = []
        number = self.limits.batch
        # First: the time may be up while the exporter is being opened.
        self.sink.hold(batch)
        # The end of the process may clear the queue meanwhile.
        while number > 0 and self._queue:
            try:
                item = self._queue.popleft()
            except IndexError:
                break
            number -= self.weigh(item)
            with guard(f"batching.{self.signal}.prepare"):
                self.prepare(item)
            batch.append(item)
        return batch

    def force_flush(self, timeout: float) -> bool:
        """Flush the queue within ``timeout`` seconds; False when the flush failed or the deadline passed."""
        if not self.pending:
            return True
        self.gate.force_open()
        deadline = time.monotonic() + timeout
        return self.thread.post(lambda: self.flush(deadline), deadline).wait()

    def close(self) -> None:
        """Close the exporter."""
        self.sink.close()

    def give_up(self) -> None:
        """Keep the remaining items in files, or count them as lost: they will not be exported."""
        items: list[Item] = []
        with suppress(IndexError):  # until it is empty; the thread may take items too
            while True:
                items.append(self._queue.popleft())
        size = self.limits.batch
        self.sink.give_up([items[start : start + size] for start in range(0, len(items), size)])

    def after_fork_in_child(self) -> None:
        """Start with nothing: the queue is the parent's."""
        self.sink.after_fork_in_child()
        self._reset()
