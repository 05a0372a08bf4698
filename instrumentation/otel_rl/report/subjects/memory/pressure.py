"""Memory over time, and what stopped the processes: garbage collections and compilations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.curves import of_line
from otel_rl.report.core.lines import over_time
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics
from otel_rl.semconv.attributes import RlCgroupMemoryEventValues as MemoryEvent
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.curves import Curve
    from otel_rl.semconv.definitions import MetricDefinition

METRICS = (
    metrics.RL_CGROUP_MEMORY_LIMIT,
    metrics.RL_CGROUP_MEMORY_EVENTS,
    metrics.RL_GC_TIME,
    metrics.RL_COMPILE_TIME,
    metrics.RL_COMPILE_RECOMPILATIONS,
)
_CURVES = 6
_OF_MEMORY = f"""
point JOIN process USING (process) WHERE metric = '{metrics.PROCESS_MEMORY_USAGE.name}' AND value IS NOT NULL"""
_PEAKS = f"SELECT label, max(value) FROM {_OF_MEMORY} GROUP BY label ORDER BY label"
_LARGEST = f"label IN (SELECT label FROM p GROUP BY label ORDER BY max(value) DESC, label LIMIT {_CURVES})"


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


@asked_once
def memory(collected: Collected) -> list[Curve]:
    """Return bytes over seconds since the first point, of the processes with most memory."""
    lines = over_time(collected.tables, "label", _OF_MEMORY, _LARGEST)
    return [of_line(who, line) for (who,), line in lines.items()]


@asked_once
def recompiled(collected: Collected) -> list[Recompiled]:
    """Return recompilations, those that took longest first."""
    groups: dict[tuple[str, str], Recompiled] = {}
    for log in collected.tables.events(events.RL_COMPILE_RECOMPILATION.name):
        get = log.attributes.get
        key = str(get(names.RL_COMPILE_FUNCTION) or ""), str(get(names.RL_COMPILE_REASON) or "")
        group = groups.setdefault(key, Recompiled(*key))
        group.number += 1
        group.seconds += float_or_none(get(names.RL_COMPILE_DURATION)) or 0.0
        group.who.add(log.process.label)
        iteration = int_or_none(get(names.RL_LOOP_ITERATION))
        if iteration is not None:
            group.first = iteration if group.first is None else min(group.first, iteration)
    return sorted(groups.values(), key=lambda group: -group.seconds)


@asked_once
def processes(collected: Collected) -> list[ProcessMetrics]:
    """Return every process that recorded its memory."""
    totals = collected.totals
    by_label = {who: ProcessMetrics(who, peak) for who, peak in collected.tables.rows(_PEAKS)}
    for metric, attribute in _SUMS.items():
        for series in totals.of(metric):
            if process := by_label.get(series.process.label):
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
