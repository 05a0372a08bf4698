"""The SDK with its own command line program, which asks a server on loopback."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk as sdk
from support.scripted_messages import INPUT, OUTPUT, ScriptedMessages

import otel_rl
from otel_rl.instrumentors.claude_agent_sdk import ClaudeAgentSDKInstrumentor
from otel_rl.instrumentors.mcp import McpInstrumentor
from otel_rl.telemetry import deferral
from otel_rl.training import trajectories


@pytest.fixture(autouse=True)
def instrumented(recorded):
    instrumentors = McpInstrumentor(), ClaudeAgentSDKInstrumentor()
    for instrumentor in instrumentors:
        instrumentor.instrument(skip_dep_check=True)
    assert not instrumentors[1].missing
    yield
    for instrumentor in instrumentors:
        instrumentor.uninstrument()


@sdk.tool("add", "Add", {"a": int, "b": int})
async def add(given):
    return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}


@sdk.tool("bad", "Fail", {"a": int})
async def bad(given):
    raise ValueError("no such number")


TOOLS = [("mcp__t__add", {"a": 1, "b": 2}), ("mcp__t__bad", {"a": 1})]


def options(server, home, **given):
    environment = {
        "ANTHROPIC_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": "k",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "HOME": str(home),
    }
    return sdk.ClaudeAgentOptions(
        model="claude-test",
        allowed_tools=["mcp__t__add", "mcp__t__bad", "Task"],
        mcp_servers={"t": sdk.create_sdk_mcp_server("t", tools=[add, bad])},
        setting_sources=[],
        cwd=str(home),
        env=environment,
        **given,
    )


async def ask(shape, server, home):
    """Ask in one of the ways; what the SDK raises after an error result is not of interest."""
    if shape == "client":
        async with sdk.ClaudeSDKClient(options(server, home)) as client:
            await client.query("add")
            return [message async for message in client.receive_response()]
    given = {"max_turns": 1} if shape == "turns are over" else {}
    given |= {"include_partial_messages": True} if shape == "streamed" else {}
    messages = sdk.query(prompt="add", options=options(server, home, **given))
    if shape == "cancelled":
        asking = asyncio.create_task(anext_of_all(messages))
        await asyncio.to_thread(server.asked.wait, 60)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    elif shape == "left early":
        async with contextlib.aclosing(messages):
            async for message in messages:
                if isinstance(message, sdk.AssistantMessage):
                    break
    else:
        with contextlib.suppress(Exception):
            await anext_of_all(messages)
    return None


async def anext_of_all(messages):
    return [message async for message in messages]


#: Shape -> plan of the server; turns, model calls, model errors, tools, tool errors; calls with tokens; status, reason.
SHAPES = {
    "query": ([TOOLS, "done"], (2, 2, 0, 2, 1), 2, ("finished", "completed")),
    "streamed": ([TOOLS, "done"], (2, 2, 0, 2, 1), 2, ("finished", "completed")),
    "client": ([TOOLS, "done"], (2, 2, 0, 2, 1), 2, ("finished", "completed")),
    "turns are over": ([TOOLS, "done"], (1, 1, 0, 2, 1), 1, ("failed", "max_turns")),
    "model fails": ([400], (0, 1, 1, 0, 0), 0, ("failed", "api_error")),
    "cancelled": (["hang"], (0, 1, 1, 0, 0), 0, ("cancelled", None)),
    "left early": ([TOOLS, "done"], (1, 1, 0, 1, 1), None, ("finished", None)),
}


@pytest.mark.shape("turns", "stream", "stream left early", "parallel tools", "failing tool", "cancelled")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_question_is_one_row_and_one_trace(recorded, tmp_path, shape):
    plan, counts, calls_with_tokens, (status, reason) = SHAPES[shape]
    with ScriptedMessages(plan) as server:
        asyncio.run(ask(shape, server, tmp_path))
    deferral.drain_all()
    trajectories.record()
    deferral.drain_all()
    (record,) = recorded.events("rl.trajectories")
    row = {key.removeprefix("rl.rollout."): values[0] for key, values in record.body.items()}
    names = ("turns", "model_calls", "model_errors", "tool_calls", "tool_errors")
    assert tuple(row.get(name, 0) for name in names) == counts
    assert row["status"] == status
    if calls_with_tokens is not None:
        assert row.get("input_tokens", 0) == calls_with_tokens * INPUT
        assert row.get("output_tokens", 0) == calls_with_tokens * OUTPUT
        assert row.get("stop_reason") == reason
    root = recorded.span("invoke_agent claude")
    inside = [span for span in recorded.spans if span.name.startswith(("chat", "execute_tool"))]
    assert {span.parent.span_id for span in inside} <= {root.context.span_id}
    tools = [span for span in inside if span.name.startswith("execute_tool")]
    assert len(inside) - len(tools) == counts[1]
    assert sum(point.count for point in recorded.metrics()["gen_ai.client.operation.duration"]) == counts[1]
    assert [span.attributes["rl.rollout.turn"] for span in tools] == [1] * counts[3]


def test_a_question_in_a_rollout_counts_there(recorded, tmp_path):
    async def run(server):
        with otel_rl.rollout("r"):
            await ask("query", server, tmp_path)

    with ScriptedMessages([TOOLS, "done"]) as server:
        asyncio.run(run(server))
    deferral.drain_all()
    trajectories.record()
    deferral.drain_all()
    (record,) = recorded.events("rl.trajectories")
    assert record.body["rl.rollout.id"] == ["r"]
    assert record.body["rl.rollout.tool_calls"] == record.body["rl.rollout.model_calls"] == [2]
    assert record.body["rl.rollout.output_tokens"] == [2 * OUTPUT]


@pytest.mark.shape("nested agent")
def test_a_nested_agent_is_below_the_tool_that_starts_it(recorded, tmp_path):
    plan = [[("Task", {"description": "d", "prompt": "nested", "subagent_type": "general-purpose"})], "done"]
    with ScriptedMessages(plan) as server:
        asyncio.run(ask("query", server, tmp_path))
    agent, tool = recorded.span("invoke_agent general-purpose"), recorded.span("execute_tool Task")
    assert agent.parent.span_id == tool.context.span_id


def test_a_tool_that_does_not_exist_is_unknown_and_its_name_on_no_metric(recorded, tmp_path):
    with ScriptedMessages([[("made_up", {"a": 1})], "done"]) as server:
        asyncio.run(ask("query", server, tmp_path))
    (point,) = recorded.metrics()["gen_ai.execute_tool.duration"]
    assert (point.attributes["gen_ai.tool.name"], point.attributes["rl.tool.outcome"]) == ("_OTHER", "unknown_tool")


def test_a_stream_of_questions_counts_the_tokens_of_each(recorded, tmp_path):
    async def ask_twice(server):
        answered = asyncio.Event()

        async def questions():
            for text in ("add", "again"):
                yield {"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None}
                await answered.wait()

        async for message in sdk.query(prompt=questions(), options=options(server, tmp_path)):
            if isinstance(message, sdk.ResultMessage):
                answered.set()

    with ScriptedMessages([TOOLS, "done", "more"]) as server:
        asyncio.run(asyncio.wait_for(ask_twice(server), 60))
    calls = [span for span in recorded.spans if span.name.startswith("chat")]
    deferral.drain_all()
    assert [
        sum(span.attributes.get(f"gen_ai.usage.{kind}_tokens", 0) for span in calls) for kind in ("input", "output")
    ] == [3 * INPUT, 3 * OUTPUT]
