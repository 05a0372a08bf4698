"""Periodic collection of metrics, begun by the first measurement instead of by the start of the process."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics.export import MetricReader

from otel_rl.internal_errors import guard
from otel_rl.pipeline import start_times
from otel_rl.pipeline.batching import suppress_instrumentation
from otel_rl.process import data_loader_workers
from otel_rl.semconv.metrics import SELF_TELEMETRY
from otel_rl.telemetry import deferral, drops

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricsData

    from otel_rl.pipeline.identity_gate import Gate


class LazyMetricReader(MetricReader):
    """Collects every ``interval`` seconds from its own thread, which :meth:`wake` starts."""

    signal = "metrics"

    def __init__(
        self,
        open_exporter: Callable[[], MetricExporter],
        gate: Gate,
        interval: float,
        preferred_temporality: dict[type, Any] | None = None,
        preferred_aggregation: dict[type, Any] | None = None,
    ) -> None:
        super().__init__(preferred_temporality, preferred_aggregation)
        self._open_exporter = open_exporter
        self._gate = gate
        self._interval = interval
        self.delivered = 0
        self._reset()

    def _reset(self) -> None:
        self._exporter: MetricExporter | None = None
        self._thread: threading.Thread | None = None
        self._muted = False
        self._closing = False
        self._hangs = False
        self._failed_points = 0
        # Re-entrant: a signal handler of the program may measure while its thread is in :meth:`wake`.
        self._lock = threading.RLock()
        self._collecting = threading.Lock()
        self._awake = threading.Event()

    def wake(self) -> None:
        """Something has been measured: begin to collect."""
        with self._lock:
            if self._thread is not None or self._muted or self._closing:
                return
            if data_loader_workers.is_data_loader_worker():
                self._muted = True
                return
            self._thread = threading.Thread(target=self._run, name="otel-rl-metrics", daemon=True)
            started = False
            with guard("metric_reader.start"):
                self._thread.start()
                started = True
            if not started:
                self._thread = None

    def _run(self) -> None:
        suppress_instrumentation()
        while not self._awake.wait(self._interval):
            deferral.drain_in_io_thread()
            if self._gate.is_open():
                self._collect_guarded()
        self._collect_guarded()
        with guard("metric_reader.shutdown"):
            if self._exporter is not None:
                self._exporter.shutdown()

    def _collect_guarded(self) -> None:
        deferral.drain()
        with guard("metric_reader.collect"), self._collecting, deferral.inside_sdk():
            self.collect()

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        points = count_points(metrics_data)
        if points == 0:
            return
        if self._exporter is None:
            self._exporter = self._open_exporter()
        metrics_data = start_times.corrected(metrics_data)
        # Assumed lost until the exporter says otherwise: it may hang past the end of the process.
        self._failed_points = points
        if getattr(self._exporter.export(metrics_data, timeout_millis), "name", "") == "SUCCESS":
            self._failed_points = 0
            self.delivered += points
        elif not self.sender_counts_drops:
            drops.count("metrics", "export_failed", points)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Collect and export now, on the caller's thread as the SDK's reader does."""
        if self._thread is None or self._muted:
            return True
        self._gate.force_open()
        self._collect_guarded()
        return self._failed_points == 0

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """The program shuts its provider down: deliver what there is."""
        self.begin_close()
        self.finish_close(time.monotonic() + timeout_millis / 1000)

    def begin_close(self) -> None:
        """Collect a last time; :meth:`finish_close` waits for it."""
        self._gate.force_open()
        self._closing = True
        self._awake.set()

    def finish_close(self, deadline: float) -> None:
        """Wait until ``deadline`` (``time.monotonic()``), then give up and count what is left."""
        if self._thread is None:
            return
        self._thread.join(max(deadline - time.monotonic(), 0))
        self._hangs = self._thread.is_alive()
        if self._hangs:
            drops.count("metrics", "exit_timeout", self.lost)

    @property
    def lost(self) -> int:
        """Data points of the last export that were not delivered; at least one where it hangs before it has counted."""
        return max(self._failed_points, int(self._hangs))

    @property
    def sender_counts_drops(self) -> bool:
        """Whether the exporter says for itself what it drops."""
        return bool(getattr(self._exporter, "counts_drops", False))

    def after_fork_in_child(self) -> None:
        """The child starts with nothing: thread, exporter and locks are its parent's."""
        self.delivered = 0
        self._reset()


def count_points(metrics_data: MetricsData) -> int:
    """Data points in one collection."""
    return sum(
        len(metric.data.data_points)
        for resource_metrics in metrics_data.resource_metrics
        for scope_metrics in resource_metrics.scope_metrics
        for metric in scope_metrics.metrics
    )


def wake_at_first_measurement(provider: MeterProvider, wake: Callable[[], None]) -> None:
    """Call ``wake`` once, at the first measurement or at the first observable instrument that is not self-telemetry.

    The SDK has no such hook: its measurement consumer gets two methods in front, which remove themselves. With an SDK
    whose inside looks different the readers start at once.
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
        # Self-telemetry is observable in every process: alone it is no reason to export anything.
        if getattr(instrument, "name", "") not in SELF_TELEMETRY:
            awake()
        type(consumer).register_asynchronous_instrument(consumer, instrument, *args, **kwargs)

    consumer.consume_measurement = consume_measurement
    consumer.register_asynchronous_instrument = register_asynchronous_instrument


def forget_measurements(provider: MeterProvider) -> None:
    """Drop what has been aggregated so far: a forked child would report its parent's counts a second time."""
    consumer = getattr(provider, "_measurement_consumer", None)
    if consumer is not None:
        consumer._lock = threading.Lock()  # noqa: SLF001 - the parent may have held it at the fork
    for storage in getattr(consumer, "_reader_storages", {}).values():
        with guard("metric_reader.forget"):
            storage._lock = threading.RLock()  # noqa: SLF001 - the parent may have held it at the fork
            storage._instrument_view_instrument_matches.clear()  # noqa: SLF001 - no public way to reset
