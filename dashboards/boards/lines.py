"""Groups of lines that several panels share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.lib.names import shown
from dashboards.lib.promql import FAILED, quantile, rate, zero_if_none
from dashboards.lib.queries import PromQuery
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from dashboards.lib.promql import Match
    from otel_rl.semconv.definitions import MetricDefinition


def quantiles(histogram: MetricDefinition, empty_when: str | None = None) -> list[PromQuery]:
    """Median and tail of a histogram, with the traces behind them."""
    return [
        PromQuery(quantile(share, histogram), legend=legend, exemplar=True, empty_when=empty_when)
        for share, legend in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    ]


def failures(
    histogram: MetricDefinition, *keys: str, where: tuple[Match, ...] = (), empty_when: str | None = None
) -> PromQuery:
    """Failures per second by ``keys`` and ``error.type``; a line at 0 when there are none."""
    failed = rate(histogram, *keys, attributes.ERROR_TYPE, where=(FAILED, *where), part="count")
    legend = shown(*keys, attributes.ERROR_TYPE)
    return PromQuery(zero_if_none(failed, histogram, attributes.ERROR_TYPE), legend=legend, empty_when=empty_when)
