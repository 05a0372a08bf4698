"""The calls that workers of the program ran, by class and function: where their time goes, and who has none to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human
from otel_rl.report.core.cells import Table, Value, number_cell, quantile_cell, seconds_cell
from otel_rl.report.core.totals import combined
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.totals import MetricSeries
    from otel_rl.store.reader import Process

LEAD = (
    "Calls of actors and tasks in the processes that ran them. Busy is their time as a share of the time for which"
    " these processes are known to have lived; calls that run at once count each. Calls in the last seconds of a worker"
    " that Ray ended may be missing."
)
_NANOSECONDS = 1e9


def table(collected: Collected) -> Table:
    """Return the calls by class and function, those that took most time first."""
    found = Table(
        ["Worker", "Role", "Call", ">Processes", ">Calls", ">Failed", ">Mean", ">p95", ">Longest", ">Total", ">Busy"],
        shown=16,
    )
    groups: dict[tuple[Any, ...], list[MetricSeries]] = {}
    for series in collected.totals.of(metrics.RL_WORKER_CALL_DURATION):
        worker, role = (series.process.identity(name) for name in (names.RL_WORKER_NAME, names.RL_ROLE))
        groups.setdefault((worker, role, series.attributes.get(names.CODE_FUNCTION_NAME)), []).append(series)
    totals = {key: combined(series) for key, series in groups.items()}
    for key in sorted(totals, key=lambda key: totals[key].cell.total, reverse=True):
        (worker, role, function), spread, series_of = key, totals[key], groups[key]
        processes = {series.process.key: series.process for series in series_of}
        failed = sum(series.spread.cell.count for series in series_of if names.ERROR_TYPE in series.attributes)
        found.rows.append(
            [
                Value(str(worker or "task")),
                Value(str(role or human.UNKNOWN)),
                Value(str(function).rpartition(".")[2]),
                number_cell(len(processes)),
                number_cell(spread.cell.count),
                number_cell(failed),
                seconds_cell(spread.cell.mean),
                quantile_cell(spread, 0.95),
                seconds_cell(spread.cell.maximum),
                seconds_cell(spread.cell.total),
                _share(spread.cell.total, list(processes.values())),
            ]
        )
    return found


def _share(seconds: float, processes: list[Process]) -> Value:
    lived = sum((process.last - process.first) / _NANOSECONDS for process in processes)
    return Value(human.percent(seconds / lived), seconds / lived) if lived > 0 else Value(human.UNKNOWN)
