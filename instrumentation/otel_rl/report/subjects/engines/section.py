"""The section on inference engines: what they did in the steps, and how long their requests took where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.core.lines import Line, over_time
from otel_rl.report.subjects.engines import request_times
from otel_rl.semconv import attributes, metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.report.core.charts import Charts, Drawing
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.engines import EngineWork
    from otel_rl.report.subjects.engines.request_times import CallTimes
    from otel_rl.semconv.definitions import MetricDefinition

#: Times of the table by step.
_TIMES = {
    "queue_time": "Queue",
    "time_to_first_token": "First token",
    "prefill_time": "Prefill",
    "decode_time": "Decode",
    "transfer_time": "Transfer",
}
#: Times that are no durations -> how they are written.
_WRITTEN: dict[str, Callable[[float | None], str]] = {
    "decode_throughput": lambda value: f"{human.number(value)} tokens/s",
    "transfer_speed": lambda value: f"{human.size(value)}/s",
    "transfer_size": human.size,
    "prefill.retries": human.number,
}
_FEWEST = 2


def build(collected: Collected, charts: Charts) -> Section:
    """Return a table by step, and charts where there are several."""
    filler = "They are seen where a step asks vLLM in the process, or an engine behind HTTP."
    section = Section("engines", "Inference engines", filler)
    engines = collected.steps.engines
    steps = engines.steps()
    replicas = _of_replicas(collected, charts)
    calls = request_times.of_calls(collected)
    if not steps:
        section.blocks += [PageBlock(charts=replicas)] if replicas else []
        section.blocks += _of_requests(calls, {})
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
    section.blocks += _of_requests(calls, whole.times)
    drawings = [drawing for drawing in _drawings(charts, steps) if drawing is not None]
    section.blocks += [PageBlock(charts=drawn) for drawn in (drawings, replicas) if drawn]
    return section


def _of_replicas(collected: Collected, charts: Charts) -> list[Drawing]:
    """Return charts of what the engines' own metrics said, by replica; with those of which it is 0."""
    drawings = []
    for metric, key, title, unit in (
        (metrics.RL_ENGINE_REQUESTS_WAITING, "engine-waiting", "Requests in the queue of an engine", "requests"),
        (metrics.RL_ENGINE_REQUESTS_RUNNING, "engine-running", "Requests that an engine works on", "requests"),
        (metrics.RL_ENGINE_KV_CACHE_USAGE, "engine-cache", "Cache of an engine in use", "share"),
    ):
        lines = _by_replica(collected, metric)
        if any(len(line.x) >= _FEWEST for line in lines.values()):
            drawings.append(charts.over_time(key, title, "by the engine's own metrics", lines, unit))
    return drawings


def _by_replica(collected: Collected, metric: MetricDefinition) -> dict[str, Line]:
    port = f"""json_extract(attributes, '$."{attributes.SERVER_PORT}"')"""
    replica = f"""json_extract(attributes, '$."{attributes.SERVER_ADDRESS}"') || ':' || {port}"""
    points = f"(SELECT {replica} AS replica, time, value FROM point WHERE metric = '{metric.name}')"
    return {replica: line for (replica,), line in over_time(collected.tables, "replica", points).items() if replica}


def _table(whole: EngineWork, steps: list[EngineWork]) -> Table:
    times = {name: title for name, title in _TIMES.items() if name in whole.times}
    columns = ["Steps", ">Requests", ">Tokens in", ">From cache", ">Tokens out"]
    columns += [f">{title}" for title in times.values()]
    columns += [">Cut off", ">Aborted", ">Preempted", ">With times"]
    table = Table(columns, shown=9)
    for work in (whole, *steps):
        cells = [_steps(work), number_cell(work.requests), number_cell(work.input_tokens)]
        cells += [_percent(work.cached_share), number_cell(work.output_tokens)]
        cells += [seconds_cell(_mean(work, name)) for name in times]
        cells += [_percent(work.share(work.truncated_samples)), number_cell(work.aborted_samples)]
        cells += [number_cell(work.preemptions), _with_times(work)]
        table.rows.append(cells)
    return table


def _of_requests(calls: dict[str, CallTimes], of_steps: dict[str, dict[str, float]]) -> list[PageBlock]:
    """Return how long requests took; by server where there are several."""
    known = {name: request_times.spread(values) for name, values in calls.get("", {}).items()}
    note = "" if known else "Median, 95 % and largest are those of the step and rank in which they are the largest."
    blocks = [PageBlock("How long requests took", note, _spreads(known or of_steps))] if known or of_steps else []
    servers = {server: times for server, times in calls.items() if server}
    if len(servers) > 1:
        blocks.append(
            PageBlock("How long requests took, by server", "Mean, and what 95 % are below.", _by_server(servers))
        )
    return blocks


def _spreads(times: dict[str, dict[str, float]]) -> Table:
    table = Table(["Time", ">Mean", ">Median", ">95 % below", ">Largest"], shown=len(times))
    for name, values in times.items():
        written = _WRITTEN.get(name, human.duration)
        known = [values.get(key) for key in ("mean", "median", "p95", "max")]
        title = Value(human.capital(name.replace(".", " ").replace("_", " ")))
        table.rows.append([title, *(Value(written(value), value) for value in known)])
    return table


def _by_server(servers: dict[str, CallTimes]) -> Table:
    shown = {key: title for key, title in _TIMES.items() if any(key in times for times in servers.values())}
    table = Table(["Server", *(f">{title}{of}" for title in shown.values() for of in ("", ", 95 %"))])
    for server, times in sorted(servers.items()):
        spreads = [request_times.spread(times[key]) if key in times else {} for key in shown]
        cells = [seconds_cell(spread.get(of)) for spread in spreads for of in ("mean", "p95")]
        table.rows.append([Value(server), *cells])
    return table


def _mean(work: EngineWork, name: str) -> float | None:
    return work.times.get(name, {}).get("mean")


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

    times = {title: line(lambda work, name=name: _mean(work, name)) for name, title in _TIMES.items()}  # type: ignore[misc]
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
