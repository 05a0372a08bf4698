"""Observable counters begin where they were registered, not where they were first collected."""

from __future__ import annotations

import time

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_rl.pipeline.start_times import corrected
from otel_rl.semconv import metrics
from otel_rl.telemetry import scope


def _collect(monkeypatch, name, registered):
    monkeypatch.setattr(scope, "observed_since", {})
    monkeypatch.setattr("otel_rl.pipeline.start_times.observed_since", {name: registered})
    reader = InMemoryMetricReader()
    meter = MeterProvider(metric_readers=[reader]).get_meter("otel_rl.test")
    from opentelemetry.metrics import Observation

    meter.create_observable_counter(metrics.TORCH_DISTRIBUTED_COLLECTIVE_CALLS.name, [lambda _: [Observation(3, {})]])
    data = corrected(reader.get_metrics_data())
    (point,) = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    return point


def test_the_series_begins_at_the_registration(monkeypatch):
    registered = time.time_ns() - 10**9
    point = _collect(monkeypatch, metrics.TORCH_DISTRIBUTED_COLLECTIVE_CALLS.name, registered)
    assert point.start_time_unix_nano == registered
    assert point.value == 3


def test_counters_of_others_are_left_alone(monkeypatch):
    registered = time.time_ns() - 10**9
    point = _collect(monkeypatch, "somebody.else", registered)
    assert point.start_time_unix_nano > registered
