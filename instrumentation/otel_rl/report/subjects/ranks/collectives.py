"""Collectives by operation and group, summed over ranks, from their counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from otel_rl.report.core.totals import MetricTotals
    from otel_rl.semconv.definitions import MetricDefinition

METRICS = (
    metrics.TORCH_DISTRIBUTED_COLLECTIVE_CALLS,
    metrics.TORCH_DISTRIBUTED_COLLECTIVE_IO,
    metrics.TORCH_DISTRIBUTED_COLLECTIVE_HOST_TIME,
    metrics.TORCH_DISTRIBUTED_COLLECTIVE_WAIT_TIME,
    metrics.TORCH_DISTRIBUTED_CLOCK_OFFSET,
)


@dataclass(slots=True)
class CollectiveTotals:
    """One operation on one group: calls, bytes and seconds over all ranks, and each rank's time in it."""

    operation: str
    group: str
    size: str
    calls: float = 0.0
    bytes: float = 0.0
    launch: float = 0.0
    wait: float = 0.0
    wait_by_rank: dict[int, float] = field(default_factory=dict)

    @property
    def longest_wait(self) -> tuple[int, float] | None:
        """The rank that waited longest in it, and how long."""
        if not self.wait_by_rank:
            return None
        rank = max(self.wait_by_rank, key=lambda waiting: self.wait_by_rank[waiting])
        return rank, self.wait_by_rank[rank]


def table(totals: MetricTotals) -> list[CollectiveTotals]:
    """Return all collectives, the ones that cost most time first."""
    by_key: dict[tuple[str, str, str], CollectiveTotals] = {}
    for metric, field_name in _FIELDS:
        for collective, value, rank in _values(totals, metric, by_key):
            setattr(collective, field_name, getattr(collective, field_name) + value)
            if field_name == "wait" and rank is not None:
                collective.wait_by_rank[rank] = collective.wait_by_rank.get(rank, 0.0) + value
    return sorted(by_key.values(), key=lambda collective: -(collective.wait + collective.launch))


_FIELDS = (
    (metrics.TORCH_DISTRIBUTED_COLLECTIVE_CALLS, "calls"),
    (metrics.TORCH_DISTRIBUTED_COLLECTIVE_IO, "bytes"),
    (metrics.TORCH_DISTRIBUTED_COLLECTIVE_HOST_TIME, "launch"),
    (metrics.TORCH_DISTRIBUTED_COLLECTIVE_WAIT_TIME, "wait"),
)
_KEY = (names.TORCH_DISTRIBUTED_OPERATION, names.TORCH_DISTRIBUTED_GROUP_NAME, names.TORCH_DISTRIBUTED_GROUP_SIZE)


def _values(
    totals: MetricTotals, metric: MetricDefinition, by_key: dict[tuple[str, str, str], CollectiveTotals]
) -> list[tuple[CollectiveTotals, float, int | None]]:
    result = []
    for values, series in totals.by(metric, *_KEY).items():
        operation, group, size = ("" if value is None else str(value) for value in values)
        collective = by_key.setdefault((operation, group, size), CollectiveTotals(operation, group, size))
        result += [(collective, each.value, each.process.rank) for each in series]
    return result


def clock_offsets(totals: MetricTotals) -> dict[str, float]:
    """Return wall clock against rank 0's in s, by the key of the process."""
    return {series.process.key: series.value for series in totals.of(metrics.TORCH_DISTRIBUTED_CLOCK_OFFSET)}
