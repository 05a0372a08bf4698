"""Calls of FastMCP's client and server: one client span and one server span each, rightly nested, counted once."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.trace import SpanKind
from support.agent_truth import rows, scopes

import otel_rl
from otel_rl.instrumentors.fastmcp import FastMcpInstrumentor
from otel_rl.instrumentors.mcp import McpInstrumentor

fastmcp = pytest.importorskip("fastmcp")


@pytest.fixture
def active(request):
    instrumentors = request.param if hasattr(request, "param") else (McpInstrumentor, FastMcpInstrumentor)
    for kind in instrumentors:
        kind().instrument(skip_dep_check=True)
    yield
    for kind in reversed(instrumentors):
        kind().uninstrument()


@pytest.fixture
def server():
    server = fastmcp.FastMCP("tools")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def bad() -> int:
        raise ValueError("secret")

    mounting = fastmcp.FastMCP("mounting")
    mounting.mount(server)
    return mounting


async def call(server, *calls):
    async with fastmcp.Client(server) as client:
        return [await client.call_tool(name, arguments, raise_on_error=False) for name, arguments in calls]


def kinds(recorded, name):
    return {span.kind: span for span in recorded.spans if span.name.startswith(name)}


@pytest.mark.shape("parallel tools", "failing tool", "cancelled")
def test_calls_at_the_same_time_count_once_each_a_failed_and_a_cancelled_one_too(recorded, active, server):
    started = asyncio.Event()

    @server.tool
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    async def run():
        async with fastmcp.Client(server) as client:
            waiting = asyncio.create_task(client.call_tool("wait"))
            await started.wait()
            calls = [("add", {"a": 1, "b": 2}), ("bad", {})]
            await asyncio.gather(*(client.call_tool(name, given, raise_on_error=False) for name, given in calls))
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    with otel_rl.rollout("r"):
        asyncio.run(run())
    (row,) = rows(recorded)
    assert (row["rl.rollout.tool_calls"], row["rl.rollout.tool_errors"]) == (3, 2)
    calls = [span for span in recorded.spans if span.name.startswith("tools/call") and span.kind is SpanKind.CLIENT]
    outcomes = {span.attributes["gen_ai.tool.name"]: span.attributes["rl.tool.outcome"] for span in calls}
    assert outcomes == {"add": "ok", "bad": "tool_error", "wait": "cancelled"}


def test_a_call_has_one_client_and_one_server_span_and_counts_once(recorded, active, server):
    with otel_rl.rollout("r"):
        asyncio.run(call(server, ("add", {"a": 1, "b": 2}), ("bad", {}), ("nope", {})))
    (row,) = rows(recorded)
    assert (row["rl.rollout.tool_calls"], row["rl.rollout.tool_errors"]) == (3, 2)
    calls = [span for span in recorded.spans if span.name.startswith("tools/call")]
    assert [span.kind for span in calls].count(SpanKind.CLIENT) == len(calls) - 3 == 3
    assert {span.instrumentation_scope.name for span in calls} == {"otel_rl.mcp"}
    assert len({span.context.trace_id for span in calls}) == 1
    for name in ("tools/call add", "tools/call bad"):
        both = kinds(recorded, name)
        assert both[SpanKind.SERVER].parent.span_id == both[SpanKind.CLIENT].context.span_id
        assert both[SpanKind.SERVER].attributes["rl.tool.outcome"] == ("ok" if "add" in name else "tool_error")


def test_no_span_holds_the_message_of_an_exception(recorded, active, server):
    asyncio.run(call(server, ("bad", {})))
    assert not any(span.events or "secret" in str(span.status.description) for span in recorded.spans)


def test_the_answer_is_the_same(recorded, active, server):
    (answer,) = asyncio.run(call(server, ("add", {"a": 1, "b": 2})))
    assert answer.data == 3


def test_a_call_inside_of_the_process_which_is_no_request_keeps_fastmcps_span(recorded, active, server):
    asyncio.run(server.call_tool("add", {"a": 1, "b": 2}))
    assert scopes(recorded) == {"fastmcp"}


@pytest.mark.parametrize("active", [(FastMcpInstrumentor,)], indirect=True)
def test_without_our_spans_of_requests_fastmcp_keeps_its_own(recorded, active, server):
    asyncio.run(call(server, ("add", {"a": 1, "b": 2})))
    both = kinds(recorded, "tools/call add")
    assert {span.instrumentation_scope.name for span in both.values()} == {"fastmcp"}
