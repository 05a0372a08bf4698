"""Memory over time, and what stopped the processes: garbage collections and compilations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.curves import of_cells
from otel_rl.report.core.statistics import BinnedSeries
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics
from otel_rl.semconv.attributes import RlCgroupMemoryEventValues as MemoryEvent

if TYPE_CHECKING:
    from otel_rl.report.core.curves import Curve
    from otel_rl.report.core.totals import MetricTotals
    from otel_rl.semconv.definitions import MetricDefinition
    from otel_rl.store.reader import Log, Point

METRICS = (
    metrics.RL_CGROUP_MEMORY_LIMIT,
    metrics.RL_CGROUP_MEMORY_EVENTS,
    metrics.RL_GC_TIME,
    metrics.RL_COMPILE_TIME,
    metrics.RL_COMPILE_RECOMPILATIONS,
)
_CELLS = 10_000
_GROUPS = 100
_CURVES = 6
_SECOND = 1_000_000_000


@dataclass(slots=True)
class Recompiled:
    """Recompilations of one function for one reason."""

    function: str
    reason: str
    number: int = 0
    seconds: float = 0.0
    #: The first step in which it happened; None for one between steps.
    first: int | None = None
    who: set[str] = field(default_factory=set)


@dataclass(slots=True)
class ProcessMetrics:
    """One process: most memory in bytes, and its sums."""

    who: str
    peak: float = 0.0
    limit: float | None = None
    kills: float = 0.0
    collecting: float = 0.0
    compiling: float = 0.0
    recompilations: float = 0.0


class Pressure:
    """Aggregates memory and pauses of all processes, in bounded memory."""

    def __init__(self) -> None:
        self._memory = BinnedSeries(_CELLS)
        self._peaks: dict[str, float] = {}
        self._recompiled: dict[tuple[str, str], Recompiled] = {}
        self.left_out = 0

    def add_point(self, point: Point) -> None:
        """Take in the memory of a process; other metrics are ignored."""
        if point.metric != metrics.PROCESS_MEMORY_USAGE.name:
            return
        who = point.process.label
        self._memory.add(point.time // _SECOND, who, point.value)
        self._peaks[who] = max(self._peaks.get(who, 0.0), point.value)

    def add_log(self, log: Log) -> None:
        """Take in the event of a recompilation; others are ignored."""
        if log.event != events.RL_COMPILE_RECOMPILATION.name:
            return
        get = log.attributes.get
        key = str(get(names.RL_COMPILE_FUNCTION) or ""), str(get(names.RL_COMPILE_REASON) or "")
        if key not in self._recompiled and len(self._recompiled) >= _GROUPS:
            self.left_out += 1
            return
        group = self._recompiled.setdefault(key, Recompiled(*key))
        group.number += 1
        group.seconds += _float_or_zero(get(names.RL_COMPILE_DURATION))
        group.who.add(log.process.label)
        iteration = get(names.RL_LOOP_ITERATION)
        if isinstance(iteration, int):
            group.first = iteration if group.first is None else min(group.first, iteration)

    def memory(self) -> list[Curve]:
        """Return bytes over seconds since the first point, of the processes with most memory."""
        lines = self._memory.lines()
        start = min((line[0][0] for line in lines.values()), default=0)
        largest = sorted(lines, key=lambda who: -self._peaks[who])[:_CURVES]
        return [
            of_cells(who, [first for first, _ in lines[who]], [cell for _, cell in lines[who]], start, over_time=True)
            for who in sorted(largest)
        ]

    def recompiled(self) -> list[Recompiled]:
        """Return recompilations, those that took longest first."""
        return sorted(self._recompiled.values(), key=lambda group: -group.seconds)

    def processes(self, totals: MetricTotals) -> list[ProcessMetrics]:
        """Return every process that recorded its memory."""
        by_label = {who: ProcessMetrics(who, peak) for who, peak in sorted(self._peaks.items())}
        for metric, attribute in _SUMS.items():
            for series in totals.of(metric):
                process = by_label.get(series.process.label)
                if process is not None:
                    setattr(process, attribute, getattr(process, attribute) + series.value)
        for series in totals.of(metrics.RL_CGROUP_MEMORY_LIMIT):
            if series.process.label in by_label:
                by_label[series.process.label].limit = series.value
        for series in totals.of(metrics.RL_CGROUP_MEMORY_EVENTS):
            is_kill = series.attributes.get(names.RL_CGROUP_MEMORY_EVENT) == MemoryEvent.OOM_KILL
            if is_kill and series.process.label in by_label:
                by_label[series.process.label].kills += series.value
        return list(by_label.values())


_SUMS: dict[MetricDefinition, str] = {
    metrics.RL_GC_TIME: "collecting",
    metrics.RL_COMPILE_TIME: "compiling",
    metrics.RL_COMPILE_RECOMPILATIONS: "recompilations",
}


def _float_or_zero(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
