"""What both ends say of the same calls: one session over each transport, with a server that records too."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from mcp import types
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.trace import SpanKind, StatusCode
from support.mcp_sessions import IS_VERSION_1, http_server, session, spans_of, text_of

from otel_rl.instrumentors.mcp import McpInstrumentor
from otel_rl.semconv import attributes as names

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class Told(NamedTuple):
    """What a session has left behind.

    Attributes:
        transport: ``stdio`` or ``http``.
        texts: what the tools have answered.
        spans: of the client's process.
        received: spans of the server.
        durations: of the requests that the client has received.
        current: span contexts that were current while the client answered its server.
        death: what the call raised during which the server died; None where the library waits for ever.
    """

    transport: str
    texts: dict[str, str]
    spans: list[ReadableSpan]
    received: list[dict[str, Any]]
    durations: list[Any]
    current: list[trace.SpanContext]
    death: Exception | None

    def span(self, name):
        [found] = [span for span in self.spans if span.name == name]
        return found


@pytest.fixture(scope="module", params=["stdio", "http"])
def told(request, pipeline, tmp_path_factory):
    McpInstrumentor().instrument(skip_dep_check=True)
    pipeline.clear()
    try:
        return asyncio.run(_talk(request.param, tmp_path_factory.mktemp("server") / "spans.jsonl", pipeline))
    finally:
        McpInstrumentor().uninstrument()


async def _talk(transport, file, recorded):
    current, texts, death = [], {}, None

    async def answer(*_):
        current.append(trace.get_current_span().get_span_context())
        content = types.TextContent(type="text", text="4")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def call(tool, **arguments):
        texts[tool] = text_of(await opened.call_tool(tool, arguments))

    with http_server(file) if transport == "http" else nullcontext("stdio") as server:
        async with session(server, file, sampling_callback=answer) as opened:
            with trace.get_tracer("program").start_as_current_span("turn"):
                await call("add", a=2, b=3)
                await call("boom", text="no")
            # A rollout's baggage, and an entry of the program's own.
            token = attach(baggage.set_baggage(names.RL_ROLLOUT_ID, "r-1", baggage.set_baggage("tenant", "secret")))
            await call("meta")
            detach(token)
            await call("ask")
            if transport == "stdio" or not IS_VERSION_1:
                death = await _raised(call("die"))
    durations = recorded.metrics()["mcp.server.operation.duration"]
    return Told(transport, texts, recorded.spans, spans_of(file), durations, current, death)


async def _raised(awaited):
    try:
        await awaited
    except Exception as error:  # noqa: BLE001 - each version has its own
        return error
    return None


def test_a_tool_call_is_one_client_span_named_as_the_conventions_say(told):
    assert told.texts["add"] == "5"
    [span] = [span for span in told.spans if span.kind is SpanKind.CLIENT and "add" in span.name]
    assert span.name == "tools/call add"
    assert span.instrumentation_scope.name == "otel_rl.mcp"
    assert span.status.status_code is StatusCode.UNSET
    values = dict(span.attributes)
    assert values[names.MCP_METHOD_NAME] == "tools/call"
    assert values[names.GEN_AI_OPERATION_NAME] == "execute_tool"
    assert values[names.GEN_AI_TOOL_NAME] == "add"
    assert values[names.JSONRPC_REQUEST_ID]
    assert values[names.MCP_PROTOCOL_VERSION]
    assert values[names.RL_TOOL_ARGUMENTS_SIZE] > 0
    assert values[names.RL_TOOL_RESULT_SIZE] > 0
    assert names.ERROR_TYPE not in values
    assert names.GEN_AI_TOOL_CALL_ARGUMENTS not in values
    assert names.GEN_AI_TOOL_CALL_RESULT not in values
    if told.transport == "stdio":
        assert values[names.NETWORK_TRANSPORT] == "pipe"
    else:
        assert values[names.NETWORK_TRANSPORT] == "tcp"
        assert values[names.NETWORK_PROTOCOL_NAME] == "http"
        assert values[names.SERVER_ADDRESS] == "127.0.0.1"
        assert values[names.SERVER_PORT] > 0
        assert values[names.MCP_SESSION_ID]


@pytest.mark.parametrize(("tool", "kind"), [("add", None), ("boom", "tool_error")])
def test_the_servers_span_is_a_child_of_the_clients(told, tool, kind):
    ours = told.span(f"tools/call {tool}")
    (theirs,) = [span for span in told.received if span["name"] == f"tools/call {tool}"]
    assert theirs["kind"] == "SERVER"
    assert theirs["scope"] == "otel_rl.mcp"
    assert theirs["trace"] == f"{ours.context.trace_id:032x}"
    assert theirs["parent"] == f"{ours.context.span_id:016x}"
    values = theirs["attributes"]
    assert values[names.GEN_AI_TOOL_NAME] == tool
    assert values[names.NETWORK_TRANSPORT] == ("pipe" if told.transport == "stdio" else "tcp")
    assert values.get(names.ERROR_TYPE) == kind
    for name in (names.JSONRPC_REQUEST_ID, names.MCP_PROTOCOL_VERSION, names.MCP_SESSION_ID):
        assert values.get(name) == ours.attributes.get(name)
    assert values[names.RL_TOOL_RESULT_SIZE] == ours.attributes[names.RL_TOOL_RESULT_SIZE]


def test_the_servers_request_carries_the_clients_span_and_our_baggage(told):
    seen, span = json.loads(told.texts["meta"]), told.span("tools/call meta")
    assert seen["traceparent"].startswith(f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-")
    assert "rl.rollout.id=r-1" in seen["baggage"]
    # mcp 2.x would send the program's baggage by itself, 1.x sends none.
    assert ("tenant" in seen["baggage"]) is not IS_VERSION_1


def test_what_a_server_asks_its_client_for_belongs_to_the_trace_of_the_call(told):
    assert told.texts["ask"] == "4"
    sampling = told.span("sampling/createMessage")
    assert told.current == [sampling.context]
    assert sampling.kind.name == "SERVER"
    assert sampling.context.trace_id == told.span("tools/call ask").context.trace_id
    # A duration with an attribute that its metric does not have would be an error here.
    [duration] = told.durations
    assert duration.attributes["mcp.method.name"] == "sampling/createMessage"


def test_a_server_that_dies_during_a_call_ends_the_call_as_without_us_and_has_closed_the_connection(told):
    if told.transport == "http" and IS_VERSION_1:
        pytest.skip("1.x waits for ever")
    if told.transport == "stdio":
        assert type(told.death).__name__ in ("McpError", "MCPError")
    assert ("Connection closed" if told.transport == "stdio" else "SSE stream") in str(told.death)
    values = told.span("tools/call die").attributes
    assert (values[names.ERROR_TYPE], values[names.RL_TOOL_OUTCOME]) == ("connection_closed", "tool_error")
