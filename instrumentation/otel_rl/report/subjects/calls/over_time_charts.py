"""Charts over the steps of what is called: durations, times to the first chunk, retries, failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core.blocks import PageBlock, line_chart, some_charts
from otel_rl.report.core.over_time import Line, merged
from otel_rl.report.subjects.calls.aggregate import Calls
from otel_rl.report.subjects.calls.calls_over_time import MODEL, TOOL

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected

_SHARE, _SECONDS = "share of the calls", "seconds"


def tools(collected: Collected, charts: Charts) -> list[PageBlock]:
    """Return duration and failures by tool."""
    calls = collected[Calls].over_time
    seconds = _of_kind(calls.seconds.lines(), TOOL, lambda called: called.name)
    failed = _of_kind(calls.failed.lines(), TOOL, lambda called: called.name)
    return some_charts(
        line_chart(charts, "tool-seconds", "Duration of a call", "mean of the step", seconds, _SECONDS),
        line_chart(charts, "tool-failed", "Failed calls", "", _some(failed), _SHARE),
    )


def models(collected: Collected, charts: Charts) -> list[PageBlock]:
    """Return latency, time to the first chunk, retries and failures by model and server."""
    calls = collected[Calls].over_time
    all_series = (calls.seconds, calls.first_chunk, calls.retried, calls.failed)
    seconds, first_chunk, retried, failed = (_of_kind(series.lines(), MODEL, _model) for series in all_series)
    return some_charts(
        line_chart(charts, "model-seconds", "Duration of a call", "mean of the step", seconds, _SECONDS),
        line_chart(charts, "model-first-chunk", "Time to the first chunk", "mean of the step", first_chunk, _SECONDS),
        line_chart(
            charts, "model-retried", "Retried calls", "sent more than once by the client", _some(retried), _SHARE
        ),
        line_chart(charts, "model-failed", "Failed calls", "", _some(failed), _SHARE),
    )


def _model(called: Any) -> str:
    return f"{called.name} at {called.place}" if called.place else str(called.name)


def _of_kind(lines: dict[Any, Line], kind: str, name: Callable[[Any], str]) -> dict[str, Line]:
    return merged({called: line for called, line in lines.items() if called.kind == kind}, name)


def _some(lines: dict[str, Line]) -> dict[str, Line]:
    """Return the lines where one is not zero throughout: a chart of zeros says less than its absence."""
    return lines if any(cell.total for line in lines.values() for cell in line.cells) else {}
