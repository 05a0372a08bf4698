"""The section on inference engines: what they did in the steps, and how long their requests took where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.core.lines import Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.report.core.charts import Charts, Drawing
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.engines import EngineWork

_TIMES = {
    "queue": "Queue",
    "first_token": "First token",
    "prefill": "Prefill",
    "decode": "Decode",
    "transfer": "Transfer",
}
_FEWEST = 2


def build(collected: Collected, charts: Charts) -> Section:
    """Return a table by step, and charts where there are several."""
    filler = "They are seen where a step asks vLLM in the process, or an engine behind HTTP."
    section = Section("engines", "Inference engines", filler)
    engines = collected.steps.engines
    steps = engines.steps()
    if not steps:
        return section
    whole = engines.whole()
    section.lead = (
        "What engines did in each step, summed over the ranks. "
        f"Times are means of {human.number(whole.profiled_requests)} of {human.number(whole.requests)} requests: "
        "the others did not tell any."
        if whole.profiled_requests < whole.requests
        else "What engines did in each step, summed over the ranks. Times are means of all requests."
    )
    section.blocks.append(PageBlock(table=_table(whole, steps)))
    drawings = [drawing for drawing in _drawings(charts, steps) if drawing is not None]
    if drawings:
        section.blocks.append(PageBlock(charts=drawings))
    return section


def _table(whole: EngineWork, steps: list[EngineWork]) -> Table:
    times = {name: title for name, title in _TIMES.items() if name in whole.seconds}
    columns = ["Steps", ">Requests", ">Tokens in", ">From cache", ">Tokens out"]
    columns += [f">{title}" for title in times.values()]
    columns += [">Cut off", ">Aborted", ">Preempted", ">With times"]
    table = Table(columns, shown=9)
    for work in (whole, *steps):
        cells = [_steps(work), number_cell(work.requests), number_cell(work.input_tokens)]
        cells += [_percent(work.cached_share), number_cell(work.output_tokens)]
        cells += [seconds_cell(work.seconds.get(name)) for name in times]
        cells += [_percent(work.share(work.truncated_samples)), number_cell(work.aborted_samples)]
        cells += [number_cell(work.preemptions), _with_times(work)]
        table.rows.append(cells)
    return table


def _steps(work: EngineWork) -> Value:
    return Value("all", -1.0) if work.step is None else Value(str(work.step), float(work.step))


def _percent(share: float | None) -> Value:
    return Value(human.percent(share), share)


def _with_times(work: EngineWork) -> Value:
    text = f"{human.number(work.profiled_requests)} of {human.number(work.requests)}"
    return Value(text, float(work.profiled_requests), "muted" if work.profiled_requests == work.requests else "")


def _drawings(charts: Charts, steps: list[EngineWork]) -> list[Drawing | None]:
    def line(value: Callable[[EngineWork], float | None]) -> Line:
        drawn = Line()
        for work in steps:
            if work.step is not None and (number := value(work)) is not None:
                drawn.append(work.step, 1, number, number, number)
        return drawn

    times = {title: line(lambda work, name=name: work.seconds.get(name)) for name, title in _TIMES.items()}  # type: ignore[misc]
    tokens = {
        "out": line(lambda work: _thousands(work.output_tokens)),
        "in": line(lambda work: _thousands(work.input_tokens)),
    }
    shares = {
        "prompt from cache": line(lambda work: work.cached_share),
        "cut off": line(lambda work: work.share(work.truncated_samples)),
        "aborted": line(lambda work: work.share(work.aborted_samples)),
    }
    return [
        _drawing(charts, "engine-seconds", "Times of a request", "mean of those that tell them", times, "seconds"),
        _drawing(charts, "engine-tokens", "Tokens of a step", "sum over the ranks", tokens, "thousand tokens"),
        _drawing(charts, "engine-shares", "Cache and ends", "of the tokens in, of the samples", shares, "share"),
    ]


def _thousands(tokens: int | None) -> float | None:
    return None if tokens is None else tokens / 1000


def _drawing(charts: Charts, key: str, title: str, hint: str, lines: dict[str, Line], unit: str) -> Drawing | None:
    drawn = {name: line for name, line in lines.items() if len(line.x) >= _FEWEST and line.total}
    return charts.over_time(key, title, hint, drawn, unit) if drawn else None
