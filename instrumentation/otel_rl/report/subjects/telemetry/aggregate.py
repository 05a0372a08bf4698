"""What otel-rl itself took of the steps, and what it dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics, spans
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from otel_rl.report.core.totals import MetricTotals
    from otel_rl.store.reader import Process, Span

METRICS = (metrics.RL_TELEMETRY_DROPPED, metrics.RL_TELEMETRY_ERRORS)


@dataclass(frozen=True, slots=True)
class Drop:
    """Items that a process could not deliver."""

    who: str
    signal: str
    reason: str
    number: int


@dataclass(slots=True)
class OwnCost:
    """CPU seconds of otel-rl and of the whole processes, over the steps of all ranks."""

    own: float = 0.0
    all: float = 0.0
    #: Steps of a rank that these are of.
    steps: int = 0

    def add_span(self, span: Span) -> None:
        """Add the step of a rank; other spans are ignored."""
        own = _seconds(span.attributes.get(names.RL_TELEMETRY_CPU_TIME))
        spent = _seconds(span.attributes.get(names.RL_LOOP_CPU_TIME))
        if span.name == spans.RL_RANK_STEP.type and own is not None and spent is not None:
            self.own += own
            self.all += spent
            self.steps += int_or_none(span.attributes.get(names.RL_LOOP_CPU_STEPS)) or 1


def _seconds(value: Any) -> float | None:
    seconds = float_or_none(value)
    return seconds if seconds is not None and seconds >= 0 else None


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
