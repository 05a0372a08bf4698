"""Periodic collection of metrics, begun by the first measurement instead of by the start of the process.

Not the SDK's ``PeriodicExportingMetricReader``: that starts a thread with the process and again in every forked child,
and collects on the program's thread in ``force_flush`` (SDK 1.44 and 1.45). This one shares the thread of the queues.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import MetricsTimeoutError
from opentelemetry.sdk.metrics.export import AggregationTemporality, MetricReader

from otel_rl.core import settings, threads
from otel_rl.core.guard import guard
from otel_rl.pipeline import start_times
from otel_rl.pipeline.batching import GATE_INTERVAL
from otel_rl.pipeline.destination import NOT_COLLECTED
from otel_rl.pipeline.sink import NO_ANSWER
from otel_rl.process import child_processes
from otel_rl.semconv.metrics import SELF_TELEMETRY
from otel_rl.telemetry import deferral

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import Metric, MetricsData

    from otel_rl.pipeline.identity_gate import Gate
    from otel_rl.pipeline.io_thread import IoThread
    from otel_rl.pipeline.sink import Sink

_SECONDS = 1000.0
#: Seconds from the first measurement to the first collection.
_FIRST_COLLECTION = 2.0
#: Most collections of a delta temporality that wait during an outage: ten minutes of them.
MAXIMUM_BACKLOG = 40


@dataclass(eq=False, repr=False)
class LazyMetricReader(MetricReader):
    """Collects every ``interval`` seconds on an I/O thread, from the first :meth:`wake` on."""

    signal = "metrics"

    sink: Sink
    thread: IoThread
    gate: Gate
    interval: float
    #: ``OTEL_METRIC_EXPORT_TIMEOUT``: seconds for the program's callbacks and the exporter together.
    timeout: float = 30.0
    preferred_temporality: InitVar[dict[type, Any] | None] = None
    preferred_aggregation: InitVar[dict[type, Any] | None] = None

    def __post_init__(
        self, preferred_temporality: dict[type, Any] | None, preferred_aggregation: dict[type, Any] | None
    ) -> None:
        super().__init__(preferred_temporality, preferred_aggregation)
        self.thread.tasks.append(self)
        self._reset()

    def _reset(self) -> None:
        self._awake = False
        self._next = math.inf
        self._delivered = True
        self._closed = False
        self._collecting = False
        # What is undone when the program's callbacks have returned; closed while none runs.
        self._callbacks = ExitStack()
        self._waits_for_callbacks = False
        # Collections that an outage refused, oldest first.
        self._backlog: deque[MetricsData] = deque()

    def wake(self) -> None:
        """Something has been measured: begin to collect."""
        if self._awake:
            return
        self._awake = True
        if child_processes.is_data_loader_worker():
            return
        self._next = time.monotonic() + min(self.interval, _FIRST_COLLECTION)
        self.thread.start()

    @property
    def awake(self) -> bool:
        """True from the first measurement on."""
        return self._next != math.inf

    @property
    def pending(self) -> bool:
        """True when anything has been measured, or is left to the thread to measure."""
        return self.awake or deferral.has_posts()

    @property
    def failing(self) -> bool:
        """True when the latest export failed."""
        return self.sink.failing

    @property
    def busy(self) -> bool:
        """True while a thread collects or exports."""
        return self._collecting or self.sink.busy

    @property
    def in_outage(self) -> bool:
        """True while the destination takes nothing."""
        return self.sink.in_outage

    @property
    def left(self) -> int:
        """Collections that wait."""
        return len(self._backlog)

    def hasten(self, at: float) -> None:
        """Collect at ``at`` (``time.monotonic()``) at the latest, once anything has been measured."""
        if at < self._next != math.inf:
            self._next = at
            self.thread.wake()

    def next_run(self) -> float:
        """Time of the next collection; the queues of this thread wake it often enough before the first one."""
        return self._next

    def run(self) -> None:
        """Collect and export, unless the gate is closed."""
        ready = self.gate.is_open()
        self._next = time.monotonic() + (self.interval if ready else min(self.interval, GATE_INTERVAL))
        if ready:
            self._collect_guarded()

    def flush(self, deadline: float) -> bool:
        """Collect and export now; False when points were lost or the deadline passed."""
        if not self.pending:
            return True
        # The deadline does not apply here: it would fail the collection instead of its waiter.
        return time.monotonic() < deadline and self._collect_guarded()

    def _collect_guarded(self) -> bool:
        self._collecting = True
        try:
            return self._collect_bounded()
        finally:
            self._collecting = False

    def _collect_bounded(self) -> bool:
        self._delivered, self._closed = False, False
        deferral.drain_in_io_thread(posts=True)
        with guard("metric_reader.collect"), suppress(MetricsTimeoutError), ExitStack() as self._callbacks:
            self._delivered = True
            # What a callback starts, such as `nvidia-smi`, has the signals blocked that its thread has.
            self._callbacks.enter_context(threads.signals_of_main_thread())
            self._waits_for_callbacks = True
            self.collect(self.timeout * _SECONDS)
            return self._delivered
        # The number of points lost in the program's callback is unknown.
        self.sink.lose("collection_timeout", 1)
        return False

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        self._waits_for_callbacks = False
        self._callbacks.close()
        if not any(metric.data.data_points for metric in _metrics(metrics_data)):
            return
        corrected = start_times.corrected(metrics_data)
        if not _has_deltas(corrected):
            # It holds the sums of those before it.
            self._backlog.clear()
        self._backlog.append(corrected)
        if len(self._backlog) > MAXIMUM_BACKLOG:
            self._put_aside(self._backlog.popleft())
        self._delivered = self._deliver_backlog(timeout_millis)

    def _deliver_backlog(self, timeout_millis: float) -> bool:
        delivered = True
        while self._backlog:
            data = self._backlog.popleft()
            delivered = self.sink.export(data, timeout_millis=timeout_millis) and delivered
            if self.sink.in_outage:
                self._backlog.appendleft(data)
                break
        return delivered

    def _put_aside(self, data: MetricsData) -> None:
        if not self.sink.put_aside(data):
            self.sink.lose("queue_full", count_points(data))

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Collect and export on the I/O thread, within the time."""
        if not self.pending:
            return True
        self.gate.force_open()
        deadline = time.monotonic() + timeout_millis / _SECONDS
        return self.thread.post(lambda: self.flush(deadline), deadline).wait()

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Deliver what there is: the program shuts its provider down."""
        self.force_flush(min(timeout_millis, settings.current().exit_timeout * _SECONDS))

    def close(self) -> None:
        """Close the exporter."""
        self._closed = True
        self.sink.close()

    def give_up(self) -> None:
        """Keep what an outage has left; count at least one lost point if there was no last collection."""
        backlog, self._backlog = list(self._backlog), deque()
        uncollected = self._next != math.inf and not (self._closed or backlog or self.sink.in_flight)
        self.sink.give_up(backlog, int(uncollected), NOT_COLLECTED if self._waits_for_callbacks else NO_ANSWER)

    def after_fork_in_child(self) -> None:
        """Start with nothing measured."""
        self.sink.after_fork_in_child()
        self._reset()


def count_points(metrics_data: MetricsData) -> int:
    """Count the program's data points in one collection; self-telemetry does not count as a loss."""
    return sum(len(metric.data.data_points) for metric in _metrics(metrics_data) if metric.name not in SELF_TELEMETRY)


def _has_deltas(metrics_data: MetricsData) -> bool:
    delta = AggregationTemporality.DELTA
    return any(getattr(metric.data, "aggregation_temporality", None) is delta for metric in _metrics(metrics_data))


def _metrics(metrics_data: MetricsData) -> Iterator[Metric]:
    for resource_metrics in metrics_data.resource_metrics:
        for scope_metrics in resource_metrics.scope_metrics:
            yield from scope_metrics.metrics


def wake_at_first_measurement(provider: MeterProvider, wake: Callable[[], None]) -> None:
    """Call ``wake`` once, at the first measurement or at the first observable instrument that is not self-telemetry.

    The SDK has no such hook: we shadow two methods of its measurement consumer and remove them at the first call. If
    the SDK's internals differ, the readers start at once.
    """
    consumer = getattr(provider, "_measurement_consumer", None)
    names = ("consume_measurement", "register_asynchronous_instrument")
    if consumer is None or not all(callable(getattr(consumer, name, None)) for name in names):
        wake()
        return

    def awake() -> None:
        for name in names:
            consumer.__dict__.pop(name, None)
        wake()

    def consume_measurement(*args: Any, **kwargs: Any) -> None:
        awake()
        consumer.consume_measurement(*args, **kwargs)

    def register_asynchronous_instrument(instrument: Any, *args: Any, **kwargs: Any) -> None:
        # Every process has observable self-telemetry: alone it must not start an export.
        if getattr(instrument, "name", "") not in SELF_TELEMETRY:
            awake()
        type(consumer).register_asynchronous_instrument(consumer, instrument, *args, **kwargs)

    consumer.consume_measurement = consume_measurement
    consumer.register_asynchronous_instrument = register_asynchronous_instrument


def forget_measurements(provider: MeterProvider, readers: list[LazyMetricReader]) -> None:
    """Drop all aggregations: a forked child would report its parent's counts a second time.

    A reader that is removed and added again begins with empty aggregations. The SDK replaces the locks of its provider
    after a fork, but not those of the measurement consumer (``_handle_fork`` in ``opentelemetry.sdk.metrics``, 1.45).
    """
    consumer: Any = getattr(provider, "_measurement_consumer", None)
    if hasattr(consumer, "_lock"):
        consumer._lock = threading.Lock()  # noqa: SLF001 - the parent may have held it at the fork
    for reader in readers:
        with guard("metric_reader.forget"):
            provider.remove_metric_reader(reader)
            provider.add_metric_reader(reader)
