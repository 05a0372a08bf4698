"""What was recorded of agents, in the form in which tests of agent libraries compare it."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from otel_rl.telemetry import deferral
from otel_rl.training import trajectories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from conftest import Recorded
    from opentelemetry.sdk.trace import ReadableSpan

_FIGURES = {
    "turns": "rl.rollout.turns",
    "models": "rl.rollout.model_calls",
    "tools": "rl.rollout.tool_calls",
    "tool errors": "rl.rollout.tool_errors",
    "input": "rl.rollout.input_tokens",
    "output": "rl.rollout.output_tokens",
    "status": "rl.rollout.status",
}


def rows(recorded: Recorded) -> list[dict[str, Any]]:
    """The rows of all trajectories so far, each by the names of its columns."""
    deferral.drain_all()
    trajectories.record()
    deferral.drain_all()
    found: list[dict[str, Any]] = []
    for record in recorded.events("rl.trajectories"):
        lists = {name: values for name, values in record.body.items() if isinstance(values, list | tuple)}
        size = len(record.body["rl.rollout.id"])
        found += [{name: values[number] for name, values in lists.items()} for number in range(size)]
    return found


def figures(row: dict[str, Any]) -> dict[str, Any]:
    """Those that any agent has."""
    return {name: row.get(column) for name, column in _FIGURES.items()}


def names(recorded: Recorded) -> Counter[str]:
    """How many spans of each name there are."""
    return Counter(span.name for span in recorded.spans)


def scopes(recorded: Recorded) -> set[str]:
    """Whose spans they are."""
    return {span.instrumentation_scope.name for span in recorded.spans}


def traces(recorded: Recorded) -> set[str]:
    """The traces of all spans."""
    return {f"{span.context.trace_id:032x}" for span in recorded.spans}


class Count:
    """What a program counts itself: the calls of its own tools, and those that raise or are cancelled."""

    def __init__(self) -> None:
        self.tools: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def clear(self) -> None:
        """Begin anew."""
        self.tools.clear()
        self.failed.clear()

    def tool(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Count the calls of a tool."""

        @contextmanager
        def counted() -> Iterator[None]:
            self.tools[function.__name__] += 1
            try:
                yield
            except BaseException:
                self.failed[function.__name__] += 1
                raise

        async def call_later(*args: Any, **kwargs: Any) -> Any:
            with counted():
                return await function(*args, **kwargs)

        def call(*args: Any, **kwargs: Any) -> Any:
            with counted():
                return function(*args, **kwargs)

        return wraps(function)(call_later if iscoroutinefunction(function) else call)


def compare(
    recorded: Recorded,
    count: Count,
    requests: Iterable[Any],
    tokens: tuple[int, int],
    *,
    agents: dict[str, int],
    named: str | None = None,
    nested: tuple[str, ...] = (),
    own_tools: dict[str, int] | None = None,
    unanswered: int = 0,
    late_answers: int = 0,
    late_tools: int = 0,
    status: str = "finished",
) -> None:
    """Compare what a program counted of one run with its row, its spans and the metrics.

    Args:
        recorded: since the run began.
        count: of the program's tools.
        requests: those that its server got.
        tokens: input and output tokens of each answer.
        agents: how many runs each agent had, by its name.
        named: name in the row; that of the first agent by default.
        nested: models of agents that a tool runs.
        own_tools: calls of the tools that the library itself brings.
        unanswered: requests whose answer nobody read.
        late_answers: those of them that were answered after the run had ended: their tokens are not in the row.
        late_tools: calls of the program's tools that fail after the run has ended.
        status: how the run ended.
    """
    bodies = [request[2] if isinstance(request, tuple) else request for request in requests]
    asked = Counter(body["model"] in nested for body in bodies)
    answered = len(bodies) - unanswered
    in_row, used = (tuple(number * each for each in tokens) for number in (answered, answered + late_answers))
    tools = count.tools + Counter(own_tools or {})
    (row,) = rows(recorded)
    columns = {name.removeprefix("rl.rollout."): value or 0 for name, value in row.items()}
    assert {
        "name": columns["gen_ai.agent.name"],
        "turns": columns["turns"],
        "model calls": (columns["model_calls"], columns.get("tool_model_calls", 0)),
        "tools": (columns["tool_calls"], columns["tool_errors"]),
        "status": columns["status"],
        "tokens": tuple(
            columns.get(f"{kind}_tokens", 0) + columns.get(f"tool_model_{kind}_tokens", 0)
            for kind in ("input", "output")
        ),
    } == {
        "name": named or next(iter(agents)),
        "turns": asked[False] - unanswered,
        "model calls": (asked[False], asked[True]),
        "tools": (tools.total() - late_tools, count.failed.total() - late_tools),
        "status": status,
        "tokens": in_row,
    }
    spans = {kind: _of(recorded, *kinds) for kind, kinds in _KINDS.items()}
    assert Counter(span.attributes["gen_ai.agent.name"] for span in spans["agents"]) == agents
    assert len(spans["calls"]) == len(bodies)
    assert tuple(_sum(spans["calls"], f"gen_ai.usage.{kind}_tokens") for kind in ("input", "output")) == used
    assert Counter(span.attributes["gen_ai.tool.name"] for span in spans["tools"]) == tools
    failed = Counter(span.attributes["gen_ai.tool.name"] for span in spans["tools"] if "error.type" in span.attributes)
    assert failed == count.failed
    _assert_whole([span for found in spans.values() for span in found], recorded.spans, columns["trace_id"])
    points = recorded.metrics()
    calls = points.get("gen_ai.client.operation.duration", ())
    assert sum(point.count for point in calls) == len(bodies)
    assert sum(point.sum for point in points.get("gen_ai.client.token.usage", ())) == sum(used)
    measured: Counter[str] = Counter()
    for point in points.get("gen_ai.execute_tool.duration", ()):
        measured[point.attributes["gen_ai.tool.name"]] += point.count
    assert measured == tools


#: What is counted, and the operations of its spans.
_KINDS = {
    "agents": ("invoke_agent",),
    "calls": ("chat", "generate_content", "text_completion"),
    "tools": ("execute_tool",),
}


def _of(recorded: Recorded, *operations: str) -> list[ReadableSpan]:
    return [span for span in recorded.spans if span.attributes.get("gen_ai.operation.name") in operations]


def _sum(spans: list[ReadableSpan], name: str) -> int:
    return sum(span.attributes.get(name, 0) for span in spans)


def _assert_whole(inside: list[ReadableSpan], spans: list[ReadableSpan], trace_id: str) -> None:
    """Each span of the run is in the row's trace, and every parent has ended."""
    assert {f"{span.context.trace_id:032x}" for span in inside} == {trace_id}
    ended = {span.context.span_id for span in spans}
    assert {span.parent.span_id for span in inside if span.parent is not None} <= ended
