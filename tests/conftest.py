"""Shared by all tests: one in-memory telemetry pipeline per process, emptied before each test that asks for it."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from contextlib import suppress

os.environ["OTEL_RL_RAISE_INTERNAL_ERRORS"] = "1"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A script's background job starts with Ctrl-C ignored, and programs that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan

    from otel_rl.pipeline.io_thread import IoThread


pytest_plugins = ["support.expensive_tests"]
pytest.register_assert_rewrite("support.agent_truth")


def pytest_configure() -> None:
    """Take the clock out of property tests: making examples is slow on a busy machine, which is no failure."""
    with suppress(ImportError):
        from hypothesis import HealthCheck, settings

        settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("any machine")


@pytest.fixture(autouse=True, scope="module")
def _small_collections() -> None:
    """Keep the objects of earlier modules out of garbage collections: many tests collect, and torch has loaded many."""
    gc.collect()
    gc.freeze()


class Recorded:
    """What has been recorded since the test began."""

    def __init__(self) -> None:
        from opentelemetry import _logs, metrics, trace
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
        from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider, ObservableCounter
        from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        from otel_rl.telemetry.correlation import BaggageLogRecordProcessor, BaggageSpanProcessor
        from otel_rl.telemetry.ids import IdGenerator

        self._spans = InMemorySpanExporter()
        self._logs = InMemoryLogRecordExporter()
        delta = AggregationTemporality.DELTA
        self._metrics = InMemoryMetricReader({Counter: delta, Histogram: delta, ObservableCounter: delta})
        self.tracer_provider = TracerProvider(id_generator=IdGenerator())
        self.tracer_provider.add_span_processor(BaggageSpanProcessor())
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        logger_provider = LoggerProvider()
        logger_provider.add_log_record_processor(BaggageLogRecordProcessor())
        logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        trace.set_tracer_provider(self.tracer_provider)
        _logs.set_logger_provider(logger_provider)
        metrics.set_meter_provider(MeterProvider(metric_readers=[self._metrics]))

    def clear(self) -> None:
        self._spans.clear()
        self._logs.clear()
        self._metrics.get_metrics_data()

    @property
    def spans(self) -> list[ReadableSpan]:
        """Finished spans, in the order they ended; ends that wait (of generators) are recorded first."""
        from otel_rl.telemetry import deferral

        deferral.drain()
        return list(self._spans.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        """The one finished span of this name."""
        found = [span for span in self.spans if span.name == name]
        assert len(found) == 1, f"{len(found)} spans named {name!r} among {[span.name for span in self.spans]}"
        return found[0]

    def events(self, name: str | None = None) -> list[Any]:
        """Log records, of this event name or all."""
        records = [data.log_record for data in self._logs.get_finished_logs()]
        return [record for record in records if name in (None, record.event_name)]

    def metrics(self) -> dict[str, list[Any]]:
        """Data points by metric name, since the last call (counters and histograms are deltas)."""
        from otel_rl.telemetry import deferral

        deferral.drain()
        data = self._metrics.get_metrics_data()
        points: dict[str, list[Any]] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points.setdefault(metric.name, []).extend(metric.data.data_points)
        return points


@pytest.fixture(scope="session")
def pipeline() -> Recorded:
    """The process' in-memory pipeline, not emptied: for property tests, which run many examples per fixture."""
    return Recorded()


@pytest.fixture
def recorded(pipeline: Recorded) -> Iterator[Recorded]:
    """The process' in-memory pipeline, empty; steps left open by a failed test are closed."""
    from otel_rl.telemetry import cardinality_budgets, deferral, progress
    from otel_rl.training import engine_versions, lowest_rewards, scalars, steps, trajectories, trajectory_changes

    steps.finish()
    # What is learned of the rewards and engines of another test.
    lowest_rewards.known.forget()
    engine_versions.forget()
    # What another test has called, and parts of the run that it left open.
    progress._totals.clear()
    progress._open_parts.clear()
    progress._part_watchers = None
    # Of each key one source is recorded: another test's trainer may have logged the same ones.
    scalars.sink.reset()
    # Of rollouts that have ended outside of steps: they wait for an export.
    trajectories._record_all()
    trajectory_changes.record()
    deferral.drain()
    # What another test measured of its calls and left waiting, perhaps for a pipeline of its own.
    for module, queue in (("measurements", "pending"), ("engine_calls", "_pending")):
        if loaded := sys.modules.get(f"otel_rl.inference.{module}"):
            getattr(loaded, queue).record()
    # Rollouts of other tests in this minute.
    if loaded := sys.modules.get("otel_rl.telemetry.held_traces"):
        loaded.forget()
    pipeline.clear()
    # Each test's servers have ports of their own: together they would use up the budget of the process.
    cardinality_budgets._seen.clear()
    yield pipeline
    steps.finish()


@pytest.fixture
def io_thread(recorded) -> Iterator[IoThread]:
    """A real I/O thread without exporters: it records only what it is asked for."""
    from otel_rl.pipeline.io_thread import IoThread
    from otel_rl.pipeline.last_delivery import LastDelivery
    from otel_rl.telemetry import deferral
    from otel_rl.training import steps

    class Thread(IoThread):
        def flush_now(self) -> None:
            deadline = time.monotonic() + 60
            assert self.post(lambda: True, deadline).wait()

    thread = Thread("otel-rl-test")
    deferral.accept_posts(thread)
    yield thread
    steps.finish()
    deferral.accept_posts(None)
    deferral.drain_all()
    LastDelivery(thread, time.monotonic() + 60).wait()
    assert not thread.started


@pytest.fixture
def no_drops_or_outages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin and end without counted drops; an outage of an earlier test was never reported."""
    from otel_rl.pipeline import outage
    from otel_rl.telemetry import drops

    monkeypatch.setattr(outage, "_told", {})
    drops.reset()
    yield
    drops.reset()
