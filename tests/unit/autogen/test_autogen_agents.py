"""Runs of AutoGen's agents and teams: their rows, and one span for each thing."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from dataclasses import dataclass

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.agent_truth import Count, compare, figures, names, rows, scopes, traces
from support.scripted_openai import INPUT_TOKENS, OUTPUT_TOKENS

import otel_rl

pytest.importorskip("autogen_agentchat")
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff, TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_agentchat.tools import AgentTool
from autogen_core import AgentId, MessageContext, RoutedAgent, SingleThreadedAgentRuntime, message_handler
from autogen_ext.models.openai import OpenAIChatCompletionClient

pytestmark = pytest.mark.usefixtures("instrumented")
SWITCH = "AUTOGEN_DISABLE_RUNTIME_TRACING"
count = Count()


@count.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@count.tool
async def bad() -> str:
    """Fail."""
    raise ValueError("no")


@pytest.fixture
def make(server):
    count.clear()

    def agent(name, *tools, model="gpt-4o", **given):
        client = OpenAIChatCompletionClient(model=model, base_url=server.base_url, api_key="none", max_retries=0)
        return AssistantAgent(name, client, tools=list(tools) or None, max_tool_iterations=5, **given)

    return agent


async def in_turns(make):
    await make("one", add, bad).run(task="do add bad, add")


async def streamed(make):
    async for _ in make("one", add, bad, model_client_stream=True).run_stream(task="do add bad, add"):
        pass


async def left_early(make):
    async with aclosing(make("one", add).run_stream(task="do add, add")) as messages:
        async for message in messages:
            if type(message).__name__ == "ToolCallExecutionEvent":
                break


async def nested(make):
    await make("outer", AgentTool(make("inner", add, model="gpt-4o-mini"))).run(task="do inner")


async def handed_over(make):
    one = make("one", handoffs=[Handoff(target="two", name="go")])
    team = Swarm([one, make("two", add)], termination_condition=MaxMessageTermination(3), name="team")
    await team.run(task="do go")


async def cancelled(make):
    started = asyncio.Event()

    @count.tool
    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(make("one", wait).run(task="do wait"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        pytest.param(
            in_turns, {"agents": {"one": 1}}, marks=pytest.mark.shape("turns", "parallel tools", "failing tool")
        ),
        pytest.param(streamed, {"agents": {"one": 1}}, marks=pytest.mark.shape("stream")),
        pytest.param(left_early, {"agents": {"one": 1}}, marks=pytest.mark.shape("stream left early")),
        pytest.param(
            nested,
            {"agents": {"outer": 1, "inner": 1}, "nested": ("gpt-4o-mini",), "own_tools": {"inner": 1}},
            marks=pytest.mark.shape("nested agent"),
        ),
        pytest.param(
            handed_over,
            {"agents": {"one": 1, "two": 1}, "named": "team", "own_tools": {"go": 1}},
            marks=pytest.mark.shape("handoff"),
        ),
        # AutoGen leaves the tool running.
        pytest.param(
            cancelled,
            {"agents": {"one": 1}, "late_tools": 1, "status": "cancelled"},
            marks=pytest.mark.shape("cancelled"),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.bad_input("agent that swallows exceptions")
def test_a_run_is_recorded_as_the_program_counts_it(recorded, make, server, shape, facts):
    asyncio.run(shape(make))
    compare(recorded, count, server.requests, (INPUT_TOKENS, OUTPUT_TOKENS), **facts)


def test_a_run_with_parallel_failing_and_unknown_tools_is_one_row_of_one_trace(recorded, make):
    asyncio.run(make("one", add, bad).run(task="do add bad, nope"))
    (row,) = rows(recorded)
    assert figures(row) == {
        "turns": 3, "models": 3, "tools": 3, "tool errors": 2, "input": 33, "output": 21, "status": "finished",
    }  # fmt: skip
    assert traces(recorded) >= {row["rl.rollout.trace_id"]}
    assert names(recorded) == {
        "create_agent one": 1, "invoke_agent one": 1, "chat gpt-4o": 3,
        "execute_tool add": 1, "execute_tool bad": 1, "execute_tool nope": 1,
    }  # fmt: skip
    run = recorded.span("invoke_agent one")
    inside = [span for span in recorded.spans if span.name != "create_agent one"]
    assert {span.context.trace_id for span in inside} == {run.context.trace_id}
    assert recorded.span("execute_tool bad").instrumentation_scope.name == "autogen-core"
    assert recorded.span("execute_tool bad").attributes["rl.tool.outcome"] == "tool_error"
    assert recorded.span("execute_tool nope").attributes["rl.tool.outcome"] == "unknown_tool"


def test_autogen_does_not_measure_its_tools_so_ours_does_once_for_each_call(recorded, make):
    asyncio.run(make("one", add, bad).run(task="do add bad"))
    durations = {
        point.attributes["gen_ai.tool.name"]: point.count
        for point in recorded.metrics()["gen_ai.execute_tool.duration"]
    }
    assert durations == {"add": 1, "bad": 1}


def test_a_failed_call_that_is_repeated_is_a_retry(recorded, make):
    asyncio.run(make("one", bad).run(task="do bad, bad"))
    (row,) = rows(recorded)
    assert row["rl.rollout.tool_retries"] == 1


def test_a_streamed_run_leaves_nothing_current_between_its_messages(recorded, make):
    async def run():
        return [otel_rl.trace_id() async for _ in make("one", add).run_stream(task="do add")]

    outside = otel_rl.trace_id()
    ids = asyncio.run(run())
    assert set(ids) == {outside}
    (row,) = rows(recorded)
    assert figures(row)["turns"] == 2


def test_an_agent_that_is_a_tool_is_part_of_the_row_of_the_one_that_calls_it(recorded, make, server):
    inner = make("inner", add)
    asyncio.run(make("outer", AgentTool(inner)).run(task="do inner"))
    (row,) = rows(recorded)
    assert (row["rl.rollout.turns"], row["rl.rollout.tool_calls"], row["rl.rollout.status"]) == (2, 2, "finished")
    # Its generators do not keep the tool's span current where they are left: the tree is AutoGen's.
    assert names(recorded)["execute_tool inner"] == names(recorded)["execute_tool add"] == 1
    assert names(recorded)["invoke_agent inner"] == 1


def test_a_team_is_one_row_of_one_trace_without_spans_of_messages(recorded, make):
    team = RoundRobinGroupChat(
        [make("one", add), make("two", add)], termination_condition=MaxMessageTermination(3), name="team"
    )
    recorded.clear()
    asyncio.run(team.run(task="do add"))
    (row,) = rows(recorded)
    assert row["rl.rollout.tool_calls"] == 1
    root = recorded.span("invoke_workflow team")
    created = [span for span in recorded.spans if span.name.startswith("create_agent")]
    assert {s.context.trace_id for s in recorded.spans if s not in created} == {root.context.trace_id}
    assert row["rl.rollout.trace_id"] == f"{root.context.trace_id:032x}"
    assert scopes(recorded) == {"autogen-core", "otel_rl.autogen", "otel_rl.openai"}
    for agent in ("invoke_agent one", "invoke_agent two"):
        assert recorded.span(agent).parent.span_id == root.context.span_id


def test_the_tool_of_a_cancelled_run_is_cancelled(recorded, make):
    asyncio.run(cancelled(make))
    assert recorded.span("execute_tool wait").attributes["rl.tool.outcome"] == "cancelled"


def test_a_team_whose_model_fails_is_a_failed_row(recorded, make, server):
    team = RoundRobinGroupChat([make("one", add)], max_turns=1)
    server.failures = 1
    with pytest.raises(RuntimeError):
        asyncio.run(team.run(task="do add"))
    (row,) = rows(recorded)
    assert (row["rl.rollout.status"], row["rl.rollout.model_errors"]) == ("failed", 1)


def test_the_result_of_a_run_is_autogens(make):
    assert isinstance(asyncio.run(make("one", add).run(task="do add")), TaskResult)


def test_the_switch_of_the_spans_of_messages_is_the_users_where_it_is_set(monkeypatch, recorded, make):
    monkeypatch.setenv(SWITCH, "false")
    team = RoundRobinGroupChat([make("one")], max_turns=1)
    asyncio.run(team.run(task=""))
    assert any(name.startswith("autogen ") for name in names(recorded))


def test_a_runtime_with_a_tracer_provider_of_the_program_keeps_its_spans_and_the_environment_its_variables(recorded):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def run():
        runtime = SingleThreadedAgentRuntime(tracer_provider=provider)
        await Echo.register(runtime, "echo", Echo)
        runtime.start()
        await runtime.send_message(Said(""), AgentId("echo", "default"))
        await runtime.stop_when_idle()

    asyncio.run(run())
    assert [span.name.split()[0] for span in exporter.get_finished_spans()] == ["autogen"] * 4
    assert not recorded.spans
    assert SWITCH not in os.environ


@dataclass
class Said:
    text: str


class Echo(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("Says it again.")

    @message_handler
    async def say(self, message: Said, ctx: MessageContext) -> Said:
        return message
