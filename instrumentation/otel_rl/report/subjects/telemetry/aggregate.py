"""What otel-rl itself took of the steps, and what it dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.totals import MetricTotals
    from otel_rl.store.reader import Process

METRICS = (metrics.RL_TELEMETRY_DROPPED, metrics.RL_TELEMETRY_ERRORS)
_OWN_COST = """
SELECT sum(own_cpu) / sum(steps) AS own, sum(cpu) / sum(steps) AS whole
FROM (SELECT own_cpu, cpu, max(coalesce(cpu_steps, 1), 1) AS steps FROM step
      WHERE NOT is_root AND own_cpu IS NOT NULL AND cpu IS NOT NULL)"""


@dataclass(frozen=True, slots=True)
class Drop:
    """Items that a process could not deliver."""

    who: str
    signal: str
    reason: str
    number: int


class OwnCost(NamedTuple):
    """CPU seconds of otel-rl and of the whole processes in a step of a rank, mean of those that say both."""

    own: float
    whole: float


def own_cost(collected: Collected) -> OwnCost | None:
    """Return what otel-rl took of the steps; None where no step says it."""
    [means] = collected.tables.rows(_OWN_COST)
    return None if means["own"] is None else OwnCost(*means)


def drops(processes: list[Process], totals: MetricTotals) -> list[Drop]:
    """List the drops of each process. Manifest and metric count the same items, so the larger number wins."""
    counted: dict[tuple[str, str, str], int] = {}
    labels = {process.key: process.label for process in processes}
    for process in processes:
        for signal, reasons in process.mapping("dropped").items():
            for reason, number in reasons.items() if isinstance(reasons, dict) else ():
                if isinstance(number, int) and number > 0:
                    counted[process.key, str(signal), str(reason)] = number
    for series in totals.of(metrics.RL_TELEMETRY_DROPPED):
        signal = str(series.attributes.get(names.RL_TELEMETRY_SIGNAL))
        key = (series.process.key, signal, str(series.attributes.get(names.RL_TELEMETRY_DROP_REASON)))
        if series.value > 0:
            counted[key] = max(counted.get(key, 0), round(series.value))
    return [Drop(labels.get(who, who), signal, reason, number) for (who, signal, reason), number in counted.items()]


def internal_errors(totals: MetricTotals) -> dict[str, int]:
    """Return errors inside the instrumentation itself, by the place where they happened."""
    sites: dict[str, int] = {}
    for series in totals.of(metrics.RL_TELEMETRY_ERRORS):
        site = str(series.attributes.get(names.RL_TELEMETRY_SITE))
        sites[site] = sites.get(site, 0) + round(series.value)
    return {site: number for site, number in sorted(sites.items()) if number}
