"""Totals of counters and histograms over all processes, with restarts handled; last values of gauges.

A cumulative series is identified by process, scope, metric and attributes. Its start time moving on, or its value
falling, means that it began again: what it had reached is kept and the new values are added to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.statistics import Cell, Spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.semconv.definitions import MetricDefinition
    from otel_rl.store.reader import Process
    from otel_rl.store.reader.otlp_values import Attributes
    from otel_rl.store.reader.records import Point

_SeriesKey = tuple[Any, ...]


@dataclass(slots=True)
class MetricSeries:
    """One series of one process."""

    process: Process
    attributes: Attributes
    #: What it had reached before it began again, or without the last point.
    _value: float = 0.0
    _spread: Spread = field(default_factory=Spread)
    _last: Point | None = None

    @property
    def value(self) -> float:
        """A counter's total, a histogram's sum, a gauge's last value."""
        return self._value + (self._last.value if self._last is not None else 0.0)

    @property
    def spread(self) -> Spread:
        """The values of a histogram."""
        spread = Spread()
        spread.merge(self._spread)
        if self._last is not None and self._last.kind == "histogram":
            spread.merge(_spread(self._last))
        return spread

    def add(self, point: Point) -> None:
        """Take in the next point of the series."""
        last = self._last
        if point.kind == "gauge":
            if last is None or point.time >= last.time:
                self._last = point
            return
        if not point.cumulative:
            self._keep(point)
            return
        if last is not None and point.time < last.time:
            return
        if last is not None and _began_again(last, point):
            self._keep(last)
        self._last = point

    def _keep(self, point: Point) -> None:
        self._value += point.value
        if point.kind == "histogram":
            self._spread.merge(_spread(point))


def _began_again(last: Point, point: Point) -> bool:
    if last.start and point.start and point.start != last.start:
        return point.start > last.start
    return point.count < last.count if point.kind == "histogram" else point.value < last.value


def _spread(point: Point) -> Spread:
    mean = point.value / point.count if point.count else 0.0
    low = mean if point.minimum is None else point.minimum
    high = mean if point.maximum is None else point.maximum
    spread = Spread(Cell(point.count, point.value, low, high)) if point.count else Spread()
    edges = [float("-inf"), *point.bounds, float("inf")]
    for index, number in enumerate(point.counts[: len(edges) - 1]):
        if number:
            spread.buckets[edges[index], edges[index + 1]] = number
    return spread


class MetricTotals:
    """All series of the metrics that the report shows."""

    def __init__(self, metrics: tuple[MetricDefinition, ...]) -> None:
        self._wanted = {metric.name for metric in metrics}
        self._series: dict[str, dict[_SeriesKey, MetricSeries]] = {}

    def add(self, point: Point) -> None:
        """Take in a point; points of other metrics are ignored."""
        if point.metric not in self._wanted:
            return
        values = tuple(sorted((key, str(value)) for key, value in point.attributes.items()))
        series = self._series.setdefault(point.metric, {})
        key = (point.process.key, point.scope, values)
        if key not in series:
            series[key] = MetricSeries(point.process, point.attributes)
        series[key].add(point)

    def of(self, metric: MetricDefinition) -> Iterator[MetricSeries]:
        """Return all series of ``metric``."""
        yield from self._series.get(metric.name, {}).values()

    def sum(self, metric: MetricDefinition) -> float:
        """Return the sum of all series of ``metric``."""
        return sum(series.value for series in self.of(metric))

    def by(self, metric: MetricDefinition, *attributes: str) -> dict[tuple[Any, ...], list[MetricSeries]]:
        """Return series of ``metric`` grouped by the values of some attributes."""
        groups: dict[tuple[Any, ...], list[MetricSeries]] = {}
        for series in self.of(metric):
            groups.setdefault(tuple(_scalar(series.attributes.get(name)) for name in attributes), []).append(series)
        return groups


def _scalar(value: Any) -> Any:
    return str(value) if isinstance(value, (list, dict)) else value


def combined(series: list[MetricSeries]) -> Spread:
    """Return the histograms of several series as one."""
    result = Spread()
    for of_process in series:
        result.merge(of_process.spread)
    return result
