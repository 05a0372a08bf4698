"""Tool spans: one table of what can happen to a tool, the same expectations in both modes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException, tool
from opentelemetry import trace
from opentelemetry.trace import StatusCode

pytest.importorskip("langgraph")
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

import otel_rl
from otel_rl.instrumentors.langchain import other_instrumentors
from otel_rl.instrumentors.mcp.connections import Connection
from otel_rl.instrumentors.mcp.operations import McpRequest
from otel_rl.instrumentors.mcp.sending import SentRequest

tracer = trace.get_tracer("program")


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    with tracer.start_as_current_span("inside add"):
        return a + b


@tool
async def add_async(a: int, b: int) -> int:
    """Adds."""
    with tracer.start_as_current_span("inside add"):
        await asyncio.sleep(0)
        return a + b


@tool
def boom(x: int) -> int:
    """Raises."""
    raise ValueError("planted secret")


def _soft(x: int) -> int:
    raise ToolException("soft")


soft = StructuredTool.from_function(_soft, name="soft", description="fails softly", handle_tool_error=True)


@tool
def ask(question: str) -> str:
    """Interrupts."""
    return str(interrupt(question))


@tool
def jump(x: int) -> Command:
    """Steers the graph."""
    return Command(update={"messages": [ToolMessage("jumped", tool_call_id="c0")]})


#: Set when the tool `slow` has begun.
begun: list[asyncio.Event] = []


@tool
async def slow(x: int) -> int:
    """Waits until it is cancelled."""
    begun.pop().set()
    await asyncio.sleep(60)
    return x


OK = (StatusCode.UNSET, None)
#: name -> (tools, calls, options of ToolNode, exception or None, {span: (status, error.type)})
CASES: dict[str, Any] = {
    "success": ([add], [("add", {"a": 1, "b": 2})], {}, None, {"execute_tool add": OK}),
    "exception": (
        [boom],
        [("boom", {"x": 1})],
        {"handle_tool_errors": False},
        ValueError,
        {"execute_tool boom": (StatusCode.ERROR, "ValueError")},
    ),
    "handled exception": (
        [boom],
        [("boom", {"x": 1})],
        {"handle_tool_errors": True},
        None,
        {"execute_tool boom": (StatusCode.ERROR, "ValueError")},
    ),
    "soft error": ([soft], [("soft", {"x": 1})], {}, None, {"execute_tool soft": (StatusCode.ERROR, "tool_error")}),
    "unknown tool": (
        [add],
        [("hallucinated", {"x": 1})],
        {},
        None,
        {"execute_tool hallucinated": (StatusCode.ERROR, "unknown_tool")},
    ),
    "command": ([jump], [("jump", {"x": 1})], {}, None, {"execute_tool jump": OK}),
    "interrupt": ([ask], [("ask", {"question": "?"})], {}, None, {"execute_tool ask": OK}),
}


def _graph(tools, calls, **options):
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(tools, **options))
    graph.add_edge(START, "tools")
    compiled = graph.compile(checkpointer=InMemorySaver())
    wanted = [
        {"name": name, "args": arguments, "id": f"c{number}", "type": "tool_call"}
        for number, (name, arguments) in enumerate(calls)
    ]
    return compiled, {"messages": [AIMessage("", tool_calls=wanted)]}, {"configurable": {"thread_id": "t"}}


def _tool_spans(recorded):
    return {
        span.name: (span.status.status_code, span.attributes.get("error.type"))
        for span in recorded.spans
        if span.name.startswith("execute_tool")
    }


@pytest.mark.parametrize("case", CASES)
def test_what_a_tool_did_shows_on_its_span_and_metric(case, mode, recorded):
    tools, calls, options, error, expected = CASES[case]
    graph, messages, config = _graph(tools, calls, **options)
    if error is None:
        graph.invoke(messages, config)
    else:
        with pytest.raises(error):
            graph.invoke(messages, config)
    assert _tool_spans(recorded) == expected
    assert not [span for span in recorded.spans if "planted" in str(dict(span.attributes)) and mode == "ours"]
    durations = recorded.metrics()["gen_ai.execute_tool.duration"]
    unknown = case == "unknown tool"
    for (name, (_, kind)), point in zip(expected.items(), durations, strict=True):
        assert point.attributes["gen_ai.tool.name"] == ("_OTHER" if unknown else name.removeprefix("execute_tool "))
        assert point.attributes.get("error.type") == kind
    assert len(recorded.events("rl.tool.unknown")) == int(unknown)


@pytest.mark.parametrize("case", CASES)
async def test_what_a_tool_did_shows_in_async_runs_too(case, mode, recorded):
    tools, calls, options, error, expected = CASES[case]
    graph, messages, config = _graph(tools, calls, **options)
    if error is None:
        await graph.ainvoke(messages, config)
    else:
        with pytest.raises(error):
            await graph.ainvoke(messages, config)
    assert _tool_spans(recorded) == expected


def test_spans_of_a_tools_body_are_below_the_tool(mode, recorded):
    graph, messages, config = _graph([add], [("add", {"a": 1, "b": 2})])
    graph.invoke(messages, config)
    assert recorded.span("inside add").parent.span_id == recorded.span("execute_tool add").context.span_id
    assert recorded.span("execute_tool add").attributes["gen_ai.tool.call.id"] == "c0"


async def test_spans_of_an_async_tools_body_are_below_the_tool(mode, recorded):
    graph, messages, config = _graph([add_async], [("add_async", {"a": 1, "b": 2})])
    await graph.ainvoke(messages, config)
    assert recorded.span("inside add").parent.span_id == recorded.span("execute_tool add_async").context.span_id


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_parallel_tools_keep_their_own_bodies(asynchronous, mode, recorded):
    graph, messages, config = _graph([add], [("add", {"a": n, "b": n}) for n in range(4)])
    with tracer.start_as_current_span("rollout"):
        if asynchronous:
            await graph.ainvoke(messages, config)
        else:
            graph.invoke(messages, config)
    tools = {span.context.span_id for span in recorded.spans if span.name == "execute_tool add"}
    bodies = [span for span in recorded.spans if span.name == "inside add"]
    assert len(tools) == len(bodies) == 4
    assert {span.parent.span_id for span in bodies} == tools
    assert len({span.context.trace_id for span in recorded.spans}) == 1


async def test_a_cancelled_tool_ends_as_an_error(mode, recorded):
    begun.append(has_begun := asyncio.Event())
    task = asyncio.create_task(slow.ainvoke({"x": 1}))
    await has_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _tool_spans(recorded) == {"execute_tool slow": (StatusCode.ERROR, "asyncio.exceptions.CancelledError")}


def test_a_tool_called_directly_is_recorded(mode, recorded):
    assert add.invoke({"a": 1, "b": 2}) == 3
    assert _tool_spans(recorded) == {"execute_tool add": OK}


def test_arguments_and_results_are_recorded_only_when_the_user_says_so(ours, recorded, monkeypatch):
    add.invoke({"a": 1, "b": 2})
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    add.invoke({"a": 1, "b": 2})
    without, with_content = [span for span in recorded.spans if span.name == "execute_tool add"]
    assert not [key for key in without.attributes if key.startswith("gen_ai.tool.call.")]
    assert with_content.attributes["gen_ai.tool.call.arguments"] == '{"a": 1, "b": 2}'
    assert with_content.attributes["gen_ai.tool.call.result"] == "3"


class _Table:
    """Compares like a data frame: by element, without a truth value."""

    class _Column(list):
        def __eq__(self, other):
            return _Table._Truthless()

        __hash__ = None

    class _Truthless:
        def __bool__(self):
            raise ValueError("the truth value is ambiguous")

    status = _Column(["ok", "error"])
    tool_call_id = _Column()


def test_a_tool_that_returns_a_table_ends(mode, recorded):
    @tool
    def query(x: int) -> object:
        """Returns a table."""
        return _Table()

    assert type(query.invoke({"x": 1})) is _Table
    assert recorded.span("execute_tool query").status.status_code is StatusCode.UNSET
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failure_that_a_tool_called_directly_handled_is_one(asynchronous, mode, recorded):
    from langchain_core.tools import StructuredTool, ToolException

    def fail(x: int) -> int:
        """Fails."""
        raise ToolException("planted")

    broken = StructuredTool.from_function(fail, handle_tool_error=True)
    arguments = {"x": 1}
    assert (await broken.ainvoke(arguments) if asynchronous else broken.invoke(arguments)) == "planted"
    add.invoke({"a": 1, "b": 2})
    assert _tool_spans(recorded) == {"execute_tool fail": (StatusCode.ERROR, "tool_error"), "execute_tool add": OK}


@pytest.mark.parametrize("taken", [True, False])
def test_a_request_inside_a_tool_is_no_second_call_of_the_trajectory_whoever_has_the_span(
    ours, recorded, monkeypatch, taken
):
    @tool
    def search(query: str) -> str:
        """Search."""
        sent = SentRequest(McpRequest("tools/call", {"name": "other", "arguments": {"q": query}}), Connection()).start()
        sent.answered({"content": []})
        return "found"

    monkeypatch.setattr(other_instrumentors, "is_taken", lambda: taken)
    with otel_rl.rollout():
        search.invoke({"query": "x"})
    assert recorded.span("rl.rollout").attributes["rl.rollout.tool_calls"] == 1
    # Where the owner of the span records no duration, that of the request stays.
    [point] = recorded.metrics()["gen_ai.execute_tool.duration"]
    assert point.attributes["gen_ai.tool.name"] == ("other" if taken else "search")
