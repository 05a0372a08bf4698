"""``rl.tool.outcome`` of tools over MCP: at both ends, on the metric, and on the tool around the request."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind
from support.mcp_sessions import connected, is_error, session, text_of

import otel_rl
from otel_rl.instrumentors.mcp import operations
from otel_rl.semconv import attributes as names
from otel_rl.telemetry import Scope, open_trajectory, progress
from otel_rl.tools.attempts import Attempt
from otel_rl.tools.calls import ToolCall

TOOL = "gen_ai.execute_tool.duration"

CALLS = [
    ("add", {"a": 2, "b": 3}, "ok"),
    ("boom", {"text": "no"}, "tool_error"),
    ("add", {"a": "two", "b": 3}, "invalid_arguments"),
    ("absent", {}, "unknown_tool"),
]


@pytest.mark.parametrize(("tool", "arguments", "outcome"), CALLS)
async def test_both_ends_and_the_metric_say_how_a_call_ended(instrumented, tool, arguments, outcome):
    async with connected() as opened:
        await opened.list_tools()
        instrumented.clear()
        instrumented.metrics()
        await opened.call_tool(tool, arguments)
    found = {
        span.kind: span.attributes[names.RL_TOOL_OUTCOME]
        for span in instrumented.spans
        if span.name.startswith("tools/call")
    }
    assert found == {SpanKind.CLIENT: outcome, SpanKind.SERVER: outcome}
    assert [one.attributes[names.RL_TOOL_OUTCOME] for one in instrumented.metrics()[TOOL]] == [outcome]


@pytest.mark.parametrize(("tool", "arguments", "outcome"), CALLS)
async def test_the_watchdog_knows_at_both_ends_which_calls_failed(instrumented, tool, arguments, outcome):
    async with connected() as opened:
        await opened.list_tools()
        progress.watch_calls(lambda _: None)
        try:
            await opened.call_tool(tool, arguments)
        finally:
            progress.watch_calls(None)
    failed = [call.failed for call in progress.ended_calls() if call.name == tool]
    assert len(failed) == 2
    assert set(failed) == {outcome != "ok"}


async def test_other_requests_have_no_outcome_of_a_tool(instrumented):
    async with connected() as opened:
        await opened.list_tools()
    assert not [span.name for span in instrumented.spans if names.RL_TOOL_OUTCOME in span.attributes]


@pytest.mark.parametrize(
    ("code", "message", "outcome"),
    [
        (-32602, "Invalid request parameters", "invalid_arguments"),
        (-32602, "Unknown tool: made up", "unknown_tool"),
        (-32603, "Internal error", "tool_error"),
    ],
)
def test_what_a_server_refuses_has_an_outcome_also_where_it_is_no_error_of_the_server(code, message, outcome):
    assert operations.of_refusal(code, message).of_tool == outcome


@pytest.mark.parametrize("sampled", [True, False])
async def test_a_tool_that_fails_by_its_request_has_the_outcome_of_the_request(instrumented, url, sampled):
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if sampled else trace.TraceFlags.DEFAULT)
    parent = trace.NonRecordingSpan(trace.SpanContext(1, 1, is_remote=True, trace_flags=flags))
    async with session(url) as opened:
        await opened.list_tools()
        instrumented.clear()
        instrumented.metrics()
        with trace.use_span(parent):
            call = ToolCall(Scope("program"), "absent").start()
            assert is_error(await opened.call_tool("absent", {}))
            call.end(ValueError("no tool"))
    (point,) = instrumented.metrics()[TOOL]
    assert (point.attributes[names.ERROR_TYPE], point.attributes[names.RL_TOOL_OUTCOME]) == (
        "ValueError",
        "unknown_tool",
    )
    if sampled:
        assert instrumented.span("execute_tool absent").attributes[names.RL_TOOL_OUTCOME] == "unknown_tool"


async def test_a_tool_that_fails_after_its_request_went_well_has_an_outcome_of_its_own(instrumented, url):
    async with session(url) as opened:
        await opened.list_tools()
        call = ToolCall(Scope("program"), "add").start()
        await opened.call_tool("add", {"a": "two", "b": 3})
        await opened.call_tool("add", {"a": 2, "b": 3})
        call.end(ValueError("mine"))
    assert instrumented.span("execute_tool add").attributes[names.RL_TOOL_OUTCOME] == "tool_error"


async def test_a_tool_that_answers_with_the_failure_of_its_request_has_failed_on_span_metric_and_row(instrumented, url):
    async with session(url) as opened:
        await opened.list_tools()
        instrumented.metrics()
        with otel_rl.rollout(), ToolCall(Scope("program"), "boom") as call:
            call.result(text_of(await opened.call_tool("boom", {"text": "no"})))
    (point,) = instrumented.metrics()[TOOL]
    for found in (point, instrumented.span("execute_tool boom")):
        assert (found.attributes[names.ERROR_TYPE], found.attributes[names.RL_TOOL_OUTCOME]) == ("tool_error",) * 2
    assert instrumented.span("rl.rollout").attributes[names.RL_ROLLOUT_TOOL_ERRORS] == 1


async def test_a_repeated_call_of_a_trajectory_is_numbered(instrumented, url):
    async with session(url) as opened:
        with otel_rl.rollout():
            for arguments in ({"text": "a"}, {"text": "a"}, {"text": "b"}):
                await opened.call_tool("boom", arguments)
            # Inside of a tool it is no call of the trajectory.
            with otel_rl.tool("careful"):
                await opened.call_tool("boom", {"text": "b"})
    spans = sorted((span for span in instrumented.spans if "boom" in span.name), key=lambda span: span.start_time)
    assert [span.attributes.get(names.RL_TOOL_RETRY) for span in spans] == [None, 1, None, None]
    assert instrumented.span("rl.rollout").attributes[names.RL_ROLLOUT_TOOL_RETRIES] == 1


async def test_an_exception_object_that_a_servers_tool_returns_arrives_as_without_us(instrumented):
    async with connected() as opened:
        instrumented.clear()
        result = await opened.call_tool("regret", {})
    # The protocol knows no exception objects: what the server makes of it decides.
    assert text_of(result)
    outcome = "tool_error" if is_error(result) else "ok"
    calls = [span.attributes[names.RL_TOOL_OUTCOME] for span in instrumented.spans if span.name == "tools/call regret"]
    assert calls == [outcome, outcome]


async def test_a_call_inside_of_a_tool_that_another_context_hides_is_counted_once(instrumented, url):
    """An official instrumentor of LangChain attaches a context of its own inside of the tool."""
    async with session(url) as opened:
        with otel_rl.rollout():
            attempt = Attempt(open_trajectory.current(), "add", {"a": 2, "b": 3})
            await opened.call_tool("add", {"a": 2, "b": 3})
            attempt.ended(failed=False)
            await opened.call_tool("add", {"a": 2, "b": 4})
    assert instrumented.span("rl.rollout").attributes[names.RL_ROLLOUT_TOOL_CALLS] == 2
