"""The section on inference engines: what they did in the steps, and how long their requests took where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.core.over_time import Line
from otel_rl.report.core.statistics import Cell

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
    """A table by step, and charts where there are several."""
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
    section.blocks.append(PageBlock(table=_table(whole, steps, engines.width)))
    drawings = [one for one in _drawings(charts, steps, engines.width) if one is not None]
    if drawings:
        section.blocks.append(PageBlock(charts=drawings))
    return section


def _table(whole: EngineWork, steps: list[EngineWork], width: int) -> Table:
    times = {name: title for name, title in _TIMES.items() if name in whole.seconds}
    columns = ["Steps", ">Requests", ">Tokens in", ">From cache", ">Tokens out"]
    columns += [f">{title}" for title in times.values()]
    columns += [">Cut off", ">Aborted", ">Preempted", ">With times"]
    table = Table(columns, shown=9)
    for one in (whole, *steps):
        cells = [_steps(one, width), number_cell(one.requests), number_cell(one.input_tokens)]
        cells += [_percent(one.cached_share), number_cell(one.output_tokens)]
        cells += [seconds_cell(one.seconds.get(name)) for name in times]
        cells += [_percent(one.share(one.truncated_samples)), number_cell(one.aborted_samples)]
        cells += [number_cell(one.preemptions), _with_times(one)]
        table.rows.append(cells)
    return table


def _steps(one: EngineWork, width: int) -> Value:
    if one.first is None:
        return Value("all", -1.0)
    return Value(str(one.first) if width == 1 else f"{one.first} to {one.first + width - 1}", float(one.first))


def _percent(share: float | None) -> Value:
    return Value(human.percent(share), share)


def _with_times(one: EngineWork) -> Value:
    text = f"{human.number(one.profiled_requests)} of {human.number(one.requests)}"
    return Value(text, float(one.profiled_requests), "muted" if one.profiled_requests == one.requests else "")


def _drawings(charts: Charts, steps: list[EngineWork], width: int) -> list[Drawing | None]:
    def line(value: Callable[[EngineWork], float | None]) -> Line:
        found = [(one.first, number) for one in steps if one.first is not None and (number := value(one)) is not None]
        return Line([first for first, _ in found], [_cell(number) for _, number in found], width, by_step=True)

    times = {title: line(lambda one, name=name: one.seconds.get(name)) for name, title in _TIMES.items()}  # type: ignore[misc]
    tokens = {
        "out": line(lambda one: _thousands(one.output_tokens, width)),
        "in": line(lambda one: _thousands(one.input_tokens, width)),
    }
    shares = {
        "prompt from cache": line(lambda one: one.cached_share),
        "cut off": line(lambda one: one.share(one.truncated_samples)),
        "aborted": line(lambda one: one.share(one.aborted_samples)),
    }
    return [
        _drawing(charts, "engine-seconds", "Times of a request", "mean of those that tell them", times, "seconds"),
        _drawing(charts, "engine-tokens", "Tokens of a step", "sum over the ranks", tokens, "thousand tokens"),
        _drawing(charts, "engine-shares", "Cache and ends", "of the tokens in, of the samples", shares, "share"),
    ]


def _thousands(tokens: int | None, width: int) -> float | None:
    return None if tokens is None else tokens / width / 1000


def _cell(value: float) -> Cell:
    cell = Cell()
    cell.add(value)
    return cell


def _drawing(charts: Charts, key: str, title: str, hint: str, lines: dict[str, Line], unit: str) -> Drawing | None:
    drawn = {name: line for name, line in lines.items() if len(line.x) >= _FEWEST and _has_some(line)}
    return charts.over_time(key, title, hint, drawn, unit) if drawn else None


def _has_some(line: Line) -> bool:
    return any(cell.total for cell in line.cells)
