"""Delivers what is new at the end of a call of a worker that may be killed at any moment after it.

Ray ends its workers in C++ within 20 to 60 ms, without atexit (``core_worker_shutdown_executor.cc`` of 2.60). So what
a call has recorded leaves before its result does. That costs nothing while nothing is new, and a fixed share of the
time at most: calls that follow each other quickly leave it to an I/O thread. After a long one, such as the task that is
the whole training, the worker often ends: it may wait longer, and does so whatever came before.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from otel_rl.pipeline.metric_reader import wake_at_first_measurement
from otel_rl.telemetry import deferral

if TYPE_CHECKING:
    from otel_rl.pipeline.io_thread import IoRequest, IoThread
    from otel_rl.pipeline.providers import Telemetry

#: Longest wait for a delivery in seconds; of a long call this share of its time, and so much at most.
LONGEST_WAIT = 0.05
_SHARE, _LONGEST_OF_ALL = 0.01, 1.0
#: Least seconds between two deliveries of spans and log records, after a pause and at last, and between two of metrics,
#: all of which a collection repeats.
_FIRST_INTERVAL, _INTERVAL, _METRICS_INTERVAL = 0.02, 0.25, 5.0
#: Times that a delivery takes until the next: calls wait for less than this share of the time.
_PAUSE = 20


class PromptDelivery:
    """Delivers to all destinations of one process; any thread may ask for it."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        #: True from a delivery with metrics to the next measurement.
        self._awaits_measurement = False
        #: When the latest delivery began, and the latest with metrics; in seconds of ``time.monotonic``.
        self._delivered = self._collected = 0.0
        #: Least seconds to the next delivery: more and more while one follows the other, and as many as they take.
        self._interval = 0.0
        #: The latest request to each thread: a server that does not answer keeps one busy for long.
        self._requests: dict[str, IoRequest] = {}

    def prepare(self) -> None:
        """Open the exporters to the network, on their thread."""
        sinks = [sink for sink in self._telemetry.sinks if not sink.destination.is_file]
        if sinks:
            self._telemetry.network.post(lambda: all(sink.open() for sink in sinks), time.monotonic() + LONGEST_WAIT)

    def request(self, seconds: float) -> list[IoRequest]:
        """Have what is new delivered; return what to wait for, nothing where nothing is new or it is too soon.

        ``seconds`` is how long the call took that ends; 0 where others run, whose ends come in quick succession.
        """
        now = time.monotonic()
        if not self._has_news():
            return []
        since = now - self._delivered
        if max(since, seconds) < self._interval:
            self._hasten(self._delivered + self._interval)
            return []
        self._delivered = now
        self._interval = _FIRST_INTERVAL if since > 4 * _INTERVAL else min(2 * self._interval, _INTERVAL)
        with_metrics = now - self._collected >= _METRICS_INTERVAL
        if with_metrics:
            self._collected = now
        else:
            self._hasten_metrics()
        self._telemetry.gate.force_open()
        deadline = now + max(LONGEST_WAIT, min(_SHARE * seconds, _LONGEST_OF_ALL))
        free = [thread for thread in self._telemetry.threads if thread.needed and not self._is_busy(thread)]
        for thread in free:
            self._requests[thread.name] = thread.post(partial(self._deliver, thread, deadline, with_metrics), deadline)
        return [self._requests[thread.name] for thread in free]

    def _is_busy(self, thread: IoThread) -> bool:
        """Return whether it is still at what it was asked for before, which took longer than a call waits."""
        latest = self._requests.get(thread.name)
        return latest is not None and not (latest.finished or latest.refused)

    @property
    def _has_measured(self) -> bool:
        return not self._awaits_measurement and any(reader.awake for reader in self._telemetry.readers)

    def _has_news(self) -> bool:
        return self._has_measured or deferral.has_posts() or any(queue.left for queue in self._telemetry.queues)

    def _deliver(self, thread: IoThread, deadline: float, with_metrics: bool) -> bool:
        """Deliver, on ``thread``; what no destination takes at once waits in its queue as ever."""
        began = time.monotonic()
        if with_metrics:
            self._await_measurement()
        is_complete = True
        for task in thread.working_first():
            if task.in_outage or (task.signal == "metrics" and not with_metrics):
                continue
            is_complete = task.flush(deadline) and is_complete
        self._interval = max(self._interval, _PAUSE * (time.monotonic() - began))
        return is_complete

    def _await_measurement(self) -> None:
        """Know of the next measurement: there is no other sign of one."""
        provider = self._telemetry.meter_provider
        if provider is not None and self._has_measured:
            # First: what is measured during the delivery may come too late for it.
            self._awaits_measurement = True
            wake_at_first_measurement(provider, self._measured)

    def _measured(self) -> None:
        self._awaits_measurement = False

    def _hasten(self, at: float) -> None:
        for queue in self._telemetry.queues:
            queue.hasten(at)
        self._hasten_metrics()

    def _hasten_metrics(self) -> None:
        for reader in self._telemetry.readers:
            reader.hasten(self._collected + _METRICS_INTERVAL)
