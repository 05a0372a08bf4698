"""Bounded delivery of spans and log records: a queue, and a thread that the first item starts.

Not the SDK's batch processor, because that starts its thread with the process, restarts it in every fork, writes to the
program's log when it drops, and cannot be given a time limit. This one counts what it drops, in :mod:`telemetry.drops`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, set_value

from otel_rl.internal_errors import guard
from otel_rl.process import data_loader_workers
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_rl.pipeline.identity_gate import Gate

Item = TypeVar("Item")


class Exporter(Protocol):
    """What the SDK's span and log exporters have in common."""

    def export(self, batch: Sequence[Any], /) -> Any:
        """Deliver; the result's name is SUCCESS or FAILURE."""

    def shutdown(self) -> Any:
        """Close connections."""


class Deliverer(Protocol):
    """What the end of the process and a fork deal with: the workers here and the metric readers."""

    signal: str
    delivered: int

    @property
    def lost(self) -> int:
        """Items that were not delivered."""

    @property
    def sender_counts_drops(self) -> bool:
        """Whether the exporter says for itself what it drops."""

    def begin_close(self) -> None:
        """Begin the last delivery."""

    def finish_close(self, deadline: float) -> None:
        """Wait for it until ``deadline``."""

    def after_fork_in_child(self) -> None:
        """Forget what is the parent's."""


@dataclass(frozen=True)
class Limits:
    """Bounds of one queue: items kept, items per export, seconds between exports."""

    queue: int = 2048
    batch: int = 512
    delay: float = 5.0


def suppress_instrumentation() -> None:
    """In the calling thread, for good: what our exporters do must not be recorded."""
    attach(set_value("suppress_instrumentation", True, set_value(_SUPPRESS_INSTRUMENTATION_KEY, True)))


class BatchWorker(Generic[Item]):
    """Takes items from any thread, delivers them in batches from its own."""

    def __init__(
        self,
        signal: str,
        open_exporter: Callable[[], Exporter],
        gate: Gate,
        limits: Limits,
        on_first: Callable[[], None] = lambda: None,
        prepare: Callable[[Item], None] = lambda _: None,
    ) -> None:
        self.signal = signal
        self.delivered = 0
        self.failed = 0
        self._open_exporter = open_exporter
        self._gate = gate
        self._limits = limits
        self._on_first = on_first
        # Run by the exporting thread, where it costs the program nothing.
        self._prepare = prepare
        self._reset()

    def _reset(self) -> None:
        self._queue: deque[Item] = deque()
        self._in_flight = 0
        self._thread: threading.Thread | None = None
        self._exporter: Exporter | None = None
        self._muted = False
        self._closing = False
        self._left = 0
        self._idle = threading.Condition()
        self._awake = threading.Event()

    def emit(self, item: Item) -> None:
        """Queue ``item``; never blocks. With a full queue the new item is dropped and counted."""
        if self._muted:
            return
        if self._closing:
            drops.count(self.signal, "after_shutdown")
            return
        if len(self._queue) >= self._limits.queue:
            drops.count(self.signal, "queue_full")
            return
        self._queue.append(item)
        if self._thread is None:
            self._start()
        elif len(self._queue) >= self._limits.batch:
            self._awake.set()

    def _start(self) -> None:
        with self._idle:
            if self._thread is not None:
                return
            if data_loader_workers.is_data_loader_worker():
                self._muted = True
                self._queue.clear()
                return
            # Known before it starts: a signal handler of the program may record while this thread waits for it.
            self._thread = threading.Thread(target=self._run, name=f"otel-rl-{self.signal}", daemon=True)
            started = False
            with guard(f"batching.{self.signal}.start"):
                self._thread.start()
                started = True
            if not started:
                self._thread = None
        with guard(f"batching.{self.signal}.first"):
            self._on_first()

    def _run(self) -> None:
        suppress_instrumentation()
        while not self._closing:
            self._awake.wait(self._limits.delay)
            self._awake.clear()
            # Rather without a rank than not at all: the gate must not make the queue overflow.
            if len(self._queue) * 2 >= self._limits.queue:
                self._gate.force_open()
            if self._closing or self._gate.is_open():
                self._drain()
        self._drain()
        with guard(f"batching.{self.signal}.shutdown"):
            if self._exporter is not None:
                self._exporter.shutdown()

    def _drain(self) -> None:
        while self._queue:
            batch: list[Item] = []
            with self._idle:
                while self._queue and len(batch) < self._limits.batch:
                    batch.append(self._queue.popleft())
                self._in_flight = len(batch)
            succeeded = False
            with guard(f"batching.{self.signal}.export"):
                succeeded = self._export(batch)
            if succeeded:
                self.delivered += len(batch)
            else:
                self.failed += len(batch)
                if not self.sender_counts_drops:
                    drops.count(self.signal, "export_failed", len(batch))
            with self._idle:
                self._in_flight = 0
                self._idle.notify_all()

    def _export(self, batch: list[Item]) -> bool:
        if self._exporter is None:
            self._exporter = self._open_exporter()
        for item in batch:
            self._prepare(item)
        return getattr(self._exporter.export(batch), "name", "") == "SUCCESS"

    def force_flush(self, timeout: float) -> bool:
        """Deliver what is queued now within ``timeout`` seconds; False where that was not enough."""
        deadline = time.monotonic() + timeout
        self._gate.force_open()
        with self._idle:
            while (self._queue or self._in_flight) and self._thread is not None and self._thread.is_alive():
                self._awake.set()
                if not self._idle.wait(min(0.1, max(deadline - time.monotonic(), 0))) and time.monotonic() >= deadline:
                    return False
        return not self._queue

    def begin_close(self) -> None:
        """Take nothing more, deliver the rest, close the exporter; :meth:`finish_close` waits for it."""
        self._gate.force_open()
        self._closing = True
        self._awake.set()

    def finish_close(self, deadline: float) -> None:
        """Wait until ``deadline`` (``time.monotonic()``), then give up and count what is left."""
        if self._thread is not None:
            self._thread.join(max(deadline - time.monotonic(), 0))
        with self._idle:
            self._left = len(self._queue) + self._in_flight
            self._queue.clear()
        drops.count(self.signal, "exit_timeout", self._left)

    @property
    def lost(self) -> int:
        """Items that the exporter refused or that were not delivered when the time was up."""
        return self.failed + self._left

    @property
    def sender_counts_drops(self) -> bool:
        """Whether the exporter says for itself what it drops."""
        return bool(getattr(self._exporter, "counts_drops", False))

    def after_fork_in_child(self) -> None:
        """The child starts with nothing: queue, thread and exporter are its parent's."""
        self.delivered = self.failed = 0
        self._reset()
