"""Lines that several panels about collectors share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dashboards.lib import panels
from dashboards.lib.collector import SIGNALS, at_least_zero, per_second
from dashboards.lib.layout import Cell
from dashboards.lib.names import shown
from dashboards.lib.queries import PromQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_rl.semconv.definitions import MetricDefinition


def lines(
    title: str,
    description: str,
    queries: Sequence[PromQuery],
    unit: str = "cps",
    thresholds: dict[str, Any] | None = None,
) -> Cell:
    """Return a panel of lines from 0 on."""
    return Cell(panels.timeseries(title, description, queries, unit=unit, minimum=0, thresholds=thresholds))


def each_signal(of: tuple[MetricDefinition, ...]) -> list[PromQuery]:
    """One line a signal: spans, metric points and log records are never added up."""
    names = zip(SIGNALS, of, strict=True)
    return [PromQuery(at_least_zero(per_second(metric)), legend=items.replace("_", " ")) for items, metric in names]


def by(metric: MetricDefinition, *keys: str) -> PromQuery:
    """Per second, one line for each value of ``keys``."""
    return PromQuery(at_least_zero(per_second(metric, *keys), *keys), legend=shown(*keys))
