"""Many measurements of one histogram at once come to the same as one by one."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import Histogram as SdkHistogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View

from otel_rl.telemetry import drops
from otel_rl.telemetry.histograms import Histogram

_BOUNDARIES = [-1.0, 0.0, 0.5, 1.0, 10.0]
_VALUES = [0.25, -3.0, 0.5, 1.0, 1.0, 99.0, 0.0, 7.5]
_VIEWS = {
    "plain": [],
    "fewer_attributes": [View(instrument_name="score", attribute_keys=set())],
    "exponential": [View(instrument_name="score", aggregation=ExponentialBucketHistogramAggregation())],
}


def _histogram(provider: MeterProvider) -> Histogram:
    meter = provider.get_meter("m")
    return Histogram(meter.create_histogram("score", explicit_bucket_boundaries_advisory=_BOUNDARIES))


def _points(reader: InMemoryMetricReader) -> list[tuple[object, ...]]:
    data = reader.get_metrics_data()
    found = []
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    buckets = getattr(point, "bucket_counts", None) or (point.positive, point.negative)
                    found.append((dict(point.attributes), point.count, point.sum, point.min, point.max, repr(buckets)))
    return sorted(found, key=repr)


def _measured(view: str, temporality: AggregationTemporality, *, together: bool) -> list[list[tuple[object, ...]]]:
    readers = [InMemoryMetricReader({SdkHistogram: temporality}) for _ in range(2)]
    provider = MeterProvider(readers, views=_VIEWS[view])
    histogram = _histogram(provider)
    rounds = []
    for shift in range(3):
        for name in ("a", "b"):
            values = [value + shift for value in _VALUES]
            if together:
                histogram.record_all(values, {"rl.reward.name": name}, None)
            else:
                for value in values:
                    histogram(value, {"rl.reward.name": name}, None)
        rounds += [_points(reader) for reader in readers]
    return rounds


@pytest.mark.parametrize("temporality", [AggregationTemporality.DELTA, AggregationTemporality.CUMULATIVE])
@pytest.mark.parametrize("view", _VIEWS)
def test_recorded_together_or_one_by_one_the_points_are_the_same(view, temporality):
    assert _measured(view, temporality, together=True) == _measured(view, temporality, together=False)


def test_negative_values_are_counted_in_their_buckets_and_the_program_s_log_stays_empty(caplog):
    reader = InMemoryMetricReader()
    _histogram(MeterProvider([reader])).record_all([-2.0, -0.5], {}, None)
    [(_, count, total, lowest, highest, buckets)] = _points(reader)
    assert (count, total, lowest, highest, buckets) == (2, -2.5, -2.0, -0.5, "(1, 1, 0, 0, 0, 0)")
    assert caplog.records == []


def test_the_installed_sdk_takes_the_values_without_a_call_for_each(monkeypatch):
    histogram = _histogram(MeterProvider([InMemoryMetricReader()]))
    consumer, calls = histogram._instrument._measurement_consumer, []
    consume = consumer.consume_measurement
    monkeypatch.setattr(consumer, "consume_measurement", lambda one: (calls.append(one), consume(one)))
    histogram.record_all(_VALUES, {}, None)
    assert len(calls) == 1


class _Foreign:
    """An instrument that looks different inside."""

    def __init__(self) -> None:
        self.calls: list[float] = []

    def record(self, value: float, labels: object, context: object) -> None:
        self.calls.append(value)


def test_an_sdk_that_looks_different_inside_gets_a_call_for_each_value_and_negative_ones_are_counted_as_dropped():
    before = drops.snapshot().get(("metrics", "negative"), 0)
    foreign = _Foreign()
    Histogram(foreign).record_all(_VALUES, {}, None)
    assert foreign.calls == [value for value in _VALUES if value >= 0]
    assert drops.snapshot()["metrics", "negative"] == before + 1
