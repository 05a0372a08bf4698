"""How new weights reach the engines: the stages of a sync, and syncs that brought nothing or a part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.totals import combined
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics
from otel_rl.store.reader.otlp_values import int_or_none, list_of

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.statistics import Spread
    from otel_rl.report.core.totals import MetricTotals

METRICS = (metrics.RL_SYNC_OPERATION_DURATION, metrics.RL_SYNC_TRANSFERRED, metrics.RL_SYNC_CHECKS)


@dataclass(slots=True)
class SyncProblem:
    """Syncs of one process with the same verdict; ``text`` and ``tensors`` are those of the first."""

    verdict: str
    who: str
    text: str
    tensors: list[str]
    first: int | None
    last: int | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Stage:
    """An operation on engines; ``transferred`` in bytes, None where the operations did not say it."""

    operation: str
    spread: Spread
    failed: float
    transferred: float | None


def problems(collected: Collected) -> list[SyncProblem]:
    """Return what went wrong by process and verdict."""
    found: dict[tuple[str, str], SyncProblem] = {}
    for log in collected.tables.events(events.RL_SYNC_PROBLEM.name):
        who, verdict = log.process.label, str(log.attributes.get(names.RL_SYNC_VERDICT))
        step = int_or_none(log.attributes.get(names.RL_LOOP_ITERATION))
        tensors = list(map(str, list_of(log.attributes, names.RL_SYNC_TENSORS_NAMES)))
        problem = found.setdefault((who, verdict), SyncProblem(verdict, who, str(log.body or ""), tensors, step))
        problem.number += 1
        problem.last = step if problem.last is None or step is None else max(problem.last, step)
    return list(found.values())


def stages(totals: MetricTotals) -> list[Stage]:
    """Return the operations on engines, those that took most first."""
    brought = totals.by(metrics.RL_SYNC_TRANSFERRED, names.RL_SYNC_OPERATION)
    operations = []
    for (operation,), series in totals.by(metrics.RL_SYNC_OPERATION_DURATION, names.RL_SYNC_OPERATION).items():
        failed = sum(
            of_process.spread.cell.count for of_process in series if of_process.attributes.get(names.ERROR_TYPE)
        )
        size = brought.get((operation,))
        transferred = None if size is None else sum(of_process.value for of_process in size)
        operations.append(Stage(str(operation), combined(series), failed, transferred))
    return sorted(operations, key=lambda of_process: -of_process.spread.cell.total)


def as_json(totals: MetricTotals) -> list[dict[str, Any]]:
    """Return the same for programs: how often each operation ran, its total seconds, failures and bytes."""
    return [
        {
            "operation": stage.operation,
            "times": int(stage.spread.cell.count),
            "seconds": stage.spread.cell.total,
            "failed": int(stage.failed),
            "bytes": stage.transferred,
        }
        for stage in stages(totals)
    ]


def compared(totals: MetricTotals) -> float:
    """Return how often an engine was compared with its trainer."""
    return totals.sum(metrics.RL_SYNC_CHECKS)
