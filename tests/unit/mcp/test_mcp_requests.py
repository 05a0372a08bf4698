"""What is recorded of requests to a real server over HTTP; the transports are those of `test_mcp_both_ends.py`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from support.mcp_sessions import IS_VERSION_1, is_error, session, text_of

import otel_rl
from otel_rl.instrumentors.mcp.connections import connection_of
from otel_rl.instrumentors.trl.tools import ToolCalls
from otel_rl.semconv import attributes as names
from otel_rl.telemetry import Scope
from otel_rl.tools.calls import ToolCall

CLIENT, TOOL = "mcp.client.operation.duration", "gen_ai.execute_tool.duration"


def client_spans(recorded):
    return [span for span in recorded.spans if span.kind is SpanKind.CLIENT]


async def test_durations_of_a_tool_call_are_recorded_once_each(instrumented, url):
    async with session(url) as opened:
        instrumented.metrics()
        await opened.call_tool("add", {"a": 2, "b": 3})
    points = instrumented.metrics()
    (call,) = [one for one in points[CLIENT] if one.attributes[names.MCP_METHOD_NAME] == "tools/call"]
    assert call.count == 1
    assert call.attributes[names.GEN_AI_TOOL_NAME] == "add"
    assert call.attributes[names.NETWORK_TRANSPORT] == "tcp"
    assert not {names.MCP_SESSION_ID, names.JSONRPC_REQUEST_ID} & set(call.attributes)
    assert [(one.count, one.attributes[names.GEN_AI_TOOL_NAME]) for one in points[TOOL]] == [(1, "add")]


async def test_other_requests_are_spans_too_and_no_tools(instrumented, url):
    async with session(url) as opened:
        await opened.list_tools()
        await opened.get_prompt("greet", {"name": "Ada"})
        await opened.read_resource("memo://today")
    seen = {span.name: dict(span.attributes) for span in client_spans(instrumented)}
    assert {"initialize", "tools/list", "prompts/get greet", "resources/read"} <= set(seen)
    assert seen["prompts/get greet"][names.GEN_AI_PROMPT_NAME] == "greet"
    assert seen["resources/read"][names.MCP_RESOURCE_URI].startswith("memo://today")
    assert not any(names.GEN_AI_OPERATION_NAME in values for values in seen.values())
    assert TOOL not in instrumented.metrics()


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("boom", {"text": "no"}, "tool_error"),
        ("add", {"a": "two", "b": 3}, "invalid_arguments"),
        ("absent", {}, "unknown_tool"),
    ],
)
async def test_a_failure_that_the_result_tells_of_is_an_error_of_its_kind(instrumented, url, tool, arguments, kind):
    async with session(url) as opened:
        instrumented.clear()
        result = await opened.call_tool(tool, arguments)
    assert is_error(result)
    span = instrumented.span(f"tools/call {tool}")
    assert span.attributes[names.ERROR_TYPE] == kind
    assert span.status.status_code is StatusCode.ERROR
    points = instrumented.metrics()
    label = "_OTHER" if kind == "unknown_tool" else tool
    for metric in (CLIENT, TOOL):
        found = [one.attributes for one in points[metric] if one.attributes.get(names.ERROR_TYPE)]
        assert [(one[names.GEN_AI_TOOL_NAME], one[names.ERROR_TYPE]) for one in found] == [(label, kind)]


async def test_a_call_without_an_answer_in_time_is_a_timeout(instrumented, url):
    limit = timedelta(seconds=0.2) if IS_VERSION_1 else 0.2
    async with session(url) as opened:
        with pytest.raises(Exception, match=r"(?i)timed out") as caught:
            await opened.call_tool("block", {}, limit)
    assert type(caught.value).__name__ in ("McpError", "MCPError")
    values = instrumented.span("tools/call block").attributes
    assert (values[names.ERROR_TYPE], values[names.RL_TOOL_OUTCOME]) == ("timeout", "timeout")


async def test_a_cancelled_call_ends_its_span_and_restores_what_was_current(instrumented, url):
    async with session(url) as opened:
        call = asyncio.create_task(opened.call_tool("block", {}))
        await opened.list_tools()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not trace.get_current_span().get_span_context().is_valid
        assert text_of(await opened.call_tool("add", {"a": 1, "b": 1})) == "2"
    values = instrumented.span("tools/call block").attributes
    assert (values[names.ERROR_TYPE], values[names.RL_TOOL_OUTCOME]) == ("cancelled", "cancelled")


async def test_concurrent_calls_in_one_session_keep_their_own_parents(instrumented, url):
    tracer = trace.get_tracer("program")

    async def turn(opened, number):
        with tracer.start_as_current_span(f"turn {number}"):
            return text_of(await opened.call_tool("add", {"a": number, "b": 1}))

    async with session(url) as opened:
        instrumented.clear()
        assert await asyncio.gather(*(turn(opened, number) for number in range(8))) == [str(n + 1) for n in range(8)]
    spans = instrumented.spans
    turns = {span.context.span_id: span.name for span in spans if span.name.startswith("turn")}
    calls = [span for span in spans if span.name == "tools/call add"]
    assert sorted(turns[span.parent.span_id] for span in calls) == sorted(turns.values())
    assert len({span.attributes[names.JSONRPC_REQUEST_ID] for span in calls}) == 8


async def test_arguments_and_results_are_recorded_only_when_content_is_on(instrumented, url, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    async with session(url) as opened:
        await opened.call_tool("add", {"a": 2, "b": 3})
    values = instrumented.span("tools/call add").attributes
    assert values[names.GEN_AI_TOOL_CALL_ARGUMENTS] == '{"a": 2, "b": 3}'
    assert '"text": "5"' in values[names.GEN_AI_TOOL_CALL_RESULT]


async def test_a_call_inside_a_tool_of_its_name_adds_to_that_span_and_counts_no_second_tool(instrumented, url):
    async with session(url) as opened:
        await opened.list_tools()
        instrumented.clear()
        instrumented.metrics()
        with ToolCall(Scope("langchain"), "add"):
            await opened.call_tool("add", {"a": 2, "b": 3})
    assert [span.name for span in instrumented.spans] == ["execute_tool add"]
    values = instrumented.spans[0].attributes
    assert values[names.MCP_METHOD_NAME] == "tools/call"
    assert values[names.NETWORK_TRANSPORT] == "tcp"
    points = instrumented.metrics()
    assert sum(one.count for one in points[TOOL]) == 1
    assert sum(one.count for one in points[CLIENT]) == 1


async def test_a_repeated_call_inside_a_tool_is_a_span_of_its_own_and_counts_no_second_tool(instrumented, url):
    async with session(url) as opened:
        await opened.list_tools()
        instrumented.clear()
        instrumented.metrics()
        with ToolCall(Scope("langchain"), "boom"):
            await opened.call_tool("boom", {"text": "first"})
            await opened.call_tool("boom", {"text": "second"})
    assert sorted(span.name for span in instrumented.spans) == ["execute_tool boom", "tools/call boom"]
    points = instrumented.metrics()
    assert sum(one.count for one in points[TOOL]) == 1
    assert sum(one.count for one in points[CLIENT]) == 2


async def test_a_call_inside_another_tool_is_one_tool_call_of_the_trajectory(instrumented, url):
    async with session(url) as opened:
        await opened.list_tools()
        with otel_rl.rollout():
            with otel_rl.tool("calculator"):
                await opened.call_tool("boom", {"text": "first"})
                await opened.call_tool("add", {"a": 2, "b": 3})
            await opened.call_tool("add", {"a": 2, "b": 3})
    values = instrumented.span("rl.rollout").attributes
    assert (values[names.RL_ROLLOUT_TOOL_CALLS], values[names.RL_ROLLOUT_TOOL_ERRORS]) == (2, 0)


@pytest.mark.parametrize("name", ["add", "calculator"])
@pytest.mark.parametrize("trace_flags", [0, 1])
async def test_a_call_inside_a_tool_counts_no_second_tool_whether_the_trace_is_sampled_or_not(
    instrumented, url, name, trace_flags
):
    parent = trace.NonRecordingSpan(trace.SpanContext(1, 1, is_remote=True, trace_flags=trace.TraceFlags(trace_flags)))
    async with session(url) as opened:
        await opened.list_tools()
        instrumented.metrics()
        with trace.use_span(parent), ToolCall(Scope("langchain"), name):
            await opened.call_tool("add", {"a": 2, "b": 3})
    points = instrumented.metrics()
    assert [(one.count, one.attributes[names.GEN_AI_TOOL_NAME]) for one in points[TOOL]] == [(1, name)]


async def test_a_call_inside_a_tool_of_trl_counts_no_second_tool(instrumented, url):
    async with session(url) as opened:
        await opened.list_tools()
        instrumented.metrics()

        async def search(a: int) -> str:
            return text_of(await opened.call_tool("add", {"a": a, "b": 3}))

        calls = ToolCalls()
        assert await calls.watch({"search": search})["search"](a=2) == "5"
        # No tool is open any more.
        await opened.call_tool("add", {"a": 2, "b": 3})
        calls.finish()
    points = instrumented.metrics()
    assert sorted((one.attributes[names.GEN_AI_TOOL_NAME], one.count) for one in points[TOOL]) == [
        ("add", 1),
        ("search", 1),
    ]


async def test_a_call_of_a_task_that_outlives_its_tool_is_a_tool_call_of_its_own(instrumented, url):
    go_on = asyncio.Event()

    async def later(opened):
        await go_on.wait()
        await opened.call_tool("add", {"a": 2, "b": 3})

    async with session(url) as opened:
        await opened.list_tools()
        with otel_rl.rollout():
            with otel_rl.tool("calculator"):
                task = asyncio.create_task(later(opened))
                await asyncio.sleep(0)
            go_on.set()
            await task
    assert instrumented.span("rl.rollout").attributes[names.RL_ROLLOUT_TOOL_CALLS] == 2


@pytest.mark.parametrize("name", ["add", "calculator"])
async def test_a_tool_span_of_another_instrumentor_hides_no_call_from_the_trajectory(instrumented, url, name):
    foreign = {names.GEN_AI_OPERATION_NAME: "execute_tool", names.GEN_AI_TOOL_NAME: name}
    async with session(url) as opened:
        await opened.list_tools()
        with (
            otel_rl.rollout(),
            trace.get_tracer("foreign").start_as_current_span(f"execute_tool {name}", attributes=foreign),
        ):
            await opened.call_tool("add", {"a": 2, "b": 3})
            with otel_rl.tool(name):
                await opened.call_tool("add", {"a": 2, "b": 3})
    assert instrumented.span("rl.rollout").attributes[names.RL_ROLLOUT_TOOL_CALLS] == 2


@pytest.mark.parametrize("second", ["two", 2])
async def test_the_last_call_inside_a_tool_decides_whether_the_tool_is_an_error(instrumented, url, second):
    async with session(url) as opened:
        await opened.list_tools()
        instrumented.clear()
        with ToolCall(Scope("langchain"), "add"):
            await opened.call_tool("add", {"a": "two", "b": 3})
            await opened.call_tool("add", {"a": second, "b": 3})
    tool = instrumented.span("execute_tool add")
    failed = second == "two"
    assert tool.status.status_code is (StatusCode.ERROR if failed else StatusCode.UNSET)
    assert tool.attributes.get(names.ERROR_TYPE) == ("invalid_arguments" if failed else None)
    assert tool.attributes[names.RL_TOOL_OUTCOME] == ("invalid_arguments" if failed else "ok")


async def test_what_the_program_says_of_a_tools_failure_stays(instrumented, url):
    async with session(url) as opened:
        await opened.list_tools()
        instrumented.clear()
        with ToolCall(Scope("langchain"), "add") as call:
            await opened.call_tool("add", {"a": "two", "b": 3})
            call.span.set_status(Status(StatusCode.ERROR, "the program's"))
            await opened.call_tool("add", {"a": 2, "b": 3})
    assert instrumented.span("execute_tool add").status.description == "the program's"


async def test_a_client_that_is_used_as_a_decorator_connects_with_each_call_as_without_us(instrumented):
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    # Any program will do: nobody speaks to it.
    parameters = StdioServerParameters(command=sys.executable, args=["-I", "-S", "-c", "input()"])
    seen = []

    @stdio_client(parameters)
    async def work():
        seen.append(1)

    await work()
    await work()
    assert seen == [1, 1]
    async with stdio_client(parameters) as (_, written):
        assert connection_of(written).labels == {names.NETWORK_TRANSPORT: "pipe"}
    with pytest.raises(TypeError):
        stdio_client(parameters, no_such=1)
