"""Durations of the phases of one step: they are recorded together when the step ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.context import Context

from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import MetricDefinition
    from otel_rl.telemetry.scope import Scope

#: So many durations of one kind are recorded before their step ends: a step may be long, and the process killed.
DURATIONS_KEPT = 1024
#: A context without anything.
NOTHING = Context()


class PhaseDurations:
    """A step's part for the durations of its phases: it keeps them and records them at the end of the step.

    A base class: a part of a phase calls it on the hot path, and a second object would cost a second look-up.
    """

    #: Of the step: the points lead to it.
    context = NOTHING

    def __init__(self) -> None:
        #: Metric name -> metric, scope that saw it, seconds of all phases of this kind.
        self._totals: dict[str, tuple[MetricDefinition, Scope, float]] = {}
        #: Span type, scope that saw it -> seconds of each phase.
        self._durations: dict[tuple[str, Scope], list[float]] = {}

    def add(self, metric: MetricDefinition, scope: Scope, seconds: float) -> None:
        """Add ``seconds`` to the one value that ``metric`` gets for this step."""
        before = self._totals.get(metric.name)
        self._totals[metric.name] = (metric, scope, seconds if before is None else before[2] + seconds)

    def add_duration(self, kind: str, scope: Scope, seconds: float) -> None:
        """Keep the duration of one phase for ``rl.phase.duration``.

        ``scope`` records it with the others of its ``kind``: at the end of the step, or when ``DURATIONS_KEPT`` wait.
        """
        durations = self._durations.get((kind, scope))
        if durations is None:
            durations = self._durations[kind, scope] = []
        durations.append(seconds)
        if len(durations) >= DURATIONS_KEPT:
            self._durations.pop((kind, scope), None)
            deferral.post(Signal.METRICS, lambda: self._record_kind(kind, scope, durations))

    def totals(self) -> dict[str, float]:
        """Return the seconds by the name of the metric."""
        return {name: total for name, (_, _, total) in self._totals.items()}

    def totals_of_kinds(self) -> dict[str, float]:
        """Return the waiting seconds by the kind of the phase, of kinds without a metric of their own."""
        totals: dict[str, float] = {}
        for (kind, _), durations in self._durations.items():
            totals[kind] = totals.get(kind, 0.0) + sum(durations)
        return totals

    def record_durations(self) -> None:
        """Record what waits: the step has ended."""
        for metric, scope, total in self._totals.values():
            scope.record(metric, total, context=self.context)
        for (kind, scope), durations in list(self._durations.items()):
            self._record_kind(kind, scope, durations)

    def _record_kind(self, kind: str, scope: Scope, durations: list[float]) -> None:
        labels = {attributes.RL_PHASE: kind.removeprefix("rl.")}
        scope.record_all(metrics.RL_PHASE_DURATION, durations, labels, self.context)
