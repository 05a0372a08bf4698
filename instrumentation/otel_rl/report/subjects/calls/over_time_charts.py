"""Charts over the steps of what is called: durations, times to the first chunk, retries, failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.blocks import PageBlock, line_chart, some_charts
from otel_rl.report.core.lines import Line, merged
from otel_rl.report.subjects.calls.lines import Called, of_kind
from otel_rl.store.tables.load import MODEL, TOOL

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected

_SHARE, _SECONDS = "share of the calls", "seconds"


def tools(collected: Collected, charts: Charts) -> list[PageBlock]:
    """Return duration and failures by tool."""
    seconds, failed = (_drawn(collected, value, TOOL, _name) for value in ("seconds", "failed"))
    return some_charts(
        line_chart(charts, "tool-seconds", "Duration of a call", "mean of the step", seconds, _SECONDS),
        line_chart(charts, "tool-failed", "Failed calls", "", _some(failed), _SHARE),
    )


def models(collected: Collected, charts: Charts) -> list[PageBlock]:
    """Return latency, time to the first chunk, retries and failures by model and server."""
    values = ("seconds", "first_chunk", "retried", "failed")
    seconds, first_chunk, retried, failed = (_drawn(collected, value, MODEL, _model) for value in values)
    return some_charts(
        line_chart(charts, "model-seconds", "Duration of a call", "mean of the step", seconds, _SECONDS),
        line_chart(charts, "model-first-chunk", "Time to the first chunk", "mean of the step", first_chunk, _SECONDS),
        line_chart(
            charts, "model-retried", "Retried calls", "sent more than once by the client", _some(retried), _SHARE
        ),
        line_chart(charts, "model-failed", "Failed calls", "", _some(failed), _SHARE),
    )


def _name(called: Called) -> str:
    return called.name


def _model(called: Called) -> str:
    return f"{called.name} at {called.place}" if called.place else called.name


def _drawn(collected: Collected, value: str, kind: str, name: Callable[[Called], str]) -> dict[str, Line]:
    return merged(of_kind(collected, value, kind), name)


def _some(lines: dict[str, Line]) -> dict[str, Line]:
    """Return the lines where one is not zero throughout: a chart of zeros says less than its absence."""
    return lines if any(line.total for line in lines.values()) else {}
