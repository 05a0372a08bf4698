"""Sets the start time of observable counters to the time when counting began.

The SDK starts an observable counter's series at its first collection, where it already has a value. Rates and
increases miss all earlier counts; for a program shorter than the export interval, they miss everything. Counting
begins when the counter is registered, or in a forked child at the fork.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics.export import AggregationTemporality, Sum

from otel_rl.core import clock
from otel_rl.telemetry.scope import observed_since

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData, ResourceMetrics, ScopeMetrics

#: When this process was forked, in ns since the epoch; 0 in a process that was not.
_forked_at = 0


def after_fork_in_child() -> None:
    """Start the child's series at the fork: earlier counts belong to the parent."""
    global _forked_at
    _forked_at = clock.now()


def corrected(data: MetricsData) -> MetricsData:
    """Return ``data`` with the start of our observable counters set to their registration."""
    return replace(data, resource_metrics=[_of_resource(resource) for resource in data.resource_metrics])


def _of_resource(resource: ResourceMetrics) -> ResourceMetrics:
    return replace(resource, scope_metrics=[_of_scope(scope) for scope in resource.scope_metrics])


def _of_scope(scope: ScopeMetrics) -> ScopeMetrics:
    return replace(scope, metrics=[_of_metric(metric) for metric in scope.metrics])


def _of_metric(metric: Metric) -> Metric:
    started = observed_since.get(metric.name)
    data = metric.data
    if (
        started is None
        or not isinstance(data, Sum)
        or data.aggregation_temporality != AggregationTemporality.CUMULATIVE
    ):
        return metric
    started = max(started, _forked_at)
    points = [
        replace(point, start_time_unix_nano=min(started, point.start_time_unix_nano or started))
        for point in data.data_points
    ]
    return replace(metric, data=replace(data, data_points=points))
