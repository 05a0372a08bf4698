"""Traces for the sampling tests, and which of them a share by trace id keeps."""

from __future__ import annotations

import os
import re
import urllib.request
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import shipped_settings
from collector_process import CollectorProcess
from otlp import attributes, span, trace_resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: Decisions within seconds, so that a test can wait for them.
FAST = {
    "OTEL_RL_COLLECTOR_DECISION_WAIT": "3s",
    "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s",
    shipped_settings.SPAN_METRICS_INTERVAL: "500ms",
}
CALLS = "traces.span.metrics.calls"
RUN = {"rl.run.id": "run-1", "rl.role": "trainer"}
_OWN_METRIC = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)

Span = dict[str, Any]


def trace(*names: str, root: dict[str, Any] | None = None, **child: Any) -> list[Span]:
    """A root span of the first name and a child for each other one; `child` are options of the last child."""
    trace_id = os.urandom(16).hex()
    first = span(names[0], trace_id=trace_id, **(root or {}))
    return [first] + [
        span(name, trace_id=trace_id, parent=first["spanId"], **(child if name == names[-1] else {}))
        for name in names[1:]
    ]


def ordinary() -> list[Span]:
    """A rollout that no policy but the share of the rest would keep."""
    return trace("rl.rollout", "chat tiny", "execute_tool search", "rl.reward")


def ids(spans: Iterable[Span]) -> set[str]:
    """The ids of the spans."""
    return {each["spanId"] for each in spans}


def all_ids(traces: Iterable[list[Span]]) -> set[str]:
    """The ids of all spans of the traces."""
    return {span_id for spans in traces for span_id in ids(spans)}


def in_share(spans: list[Span], percentage: float) -> bool:
    """Whether OpenTelemetry's consistent probability sampling keeps the trace: by the last 56 bits of its id."""
    return int(spans[0]["traceId"][-14:], 16) >= (1 - percentage / 100) * (1 << 56)


def send(collector: CollectorProcess, *traces: list[Span]) -> None:
    """One request per trace."""
    for each in traces:
        collector.send("traces", [trace_resource(each, **RUN)])


def send_together(collector: CollectorProcess, traces: Iterable[list[Span]]) -> None:
    """All traces in one request."""
    collector.send("traces", [trace_resource([each for spans in traces for each in spans], **RUN)])


def span_series(collector: CollectorProcess, name: str = CALLS) -> dict[str, dict[str, Any]]:
    """The newest point of each series of a span metric, by its resource and attributes."""
    newest: dict[str, dict[str, Any]] = {}
    for group in collector.resources("metrics"):
        resource = sorted(attributes(group["resource"]).items())
        for metric in (metric for scope in group["scopeMetrics"] for metric in scope["metrics"]):
            if metric["name"] == name:
                for point in metric.get("sum", metric.get("histogram"))["dataPoints"]:
                    newest[str((resource, sorted(attributes(point).items())))] = point
    return newest


def span_calls(collector: CollectorProcess) -> int:
    """The newest total of the span counter over all its series."""
    return sum(int(point["asInt"]) for point in span_series(collector).values())


def own_metrics(collector: CollectorProcess) -> dict[str, dict[str, float]]:
    """The collector's own metrics as it shows them now: name -> labels as text -> value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{collector.metrics_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for name, labels, value in _OWN_METRIC.findall(text):
        found[name][labels] = float(value)
    return found


@contextmanager
def collectors(
    binary: Path, folder: Path, *each: tuple[tuple[str | Path, ...], dict[str, str]]
) -> Iterator[list[CollectorProcess]]:
    """Several collectors at once, each given as its files and variables, in folders of their own."""
    with ExitStack() as stack:
        started = []
        for number, (files, variables) in enumerate(each):
            own = folder / f"collector-{number}"
            own.mkdir()
            started.append(stack.enter_context(CollectorProcess(binary, files, own, {**FAST, **variables})))
        yield started
