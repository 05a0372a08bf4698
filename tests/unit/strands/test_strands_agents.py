"""Runs of Strands' agents: their rows, and one span for each thing, which is Strands' own."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing

import pytest
from support.agent_truth import Count, compare, figures, names, rows, scopes, traces
from support.scripted_openai import INPUT_TOKENS, OUTPUT_TOKENS

import otel_rl

pytest.importorskip("strands")
from strands import Agent, tool
from strands.models import Model
from strands.models.openai import OpenAIModel
from strands.multiagent import GraphBuilder, Swarm
from strands.telemetry import tracer as tracing

pytestmark = pytest.mark.usefixtures("instrumented")
NATIVE = "strands.telemetry.tracer"
count = Count()


@tool
@count.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
@count.tool
def bad() -> str:
    """Fail."""
    raise ValueError("no")


@pytest.fixture
def make(server):
    count.clear()

    def agent(*tools, model="tiny", **given):
        made = OpenAIModel(client_args={"base_url": server.base_url, "api_key": "none"}, model_id=model)
        return Agent(model=made, tools=list(tools), callback_handler=None, **given)

    return agent


async def in_turns(make):
    await make(add, bad, name="one").invoke_async("do add bad, add")


async def streamed(make):
    async for _ in make(add, bad, name="one").stream_async("do add bad, add"):
        pass


async def left_early(make):
    async with aclosing(make(add, name="one").stream_async("do add, add")) as events:
        async for event in events:
            if event.get("message", {}).get("role") == "user":
                break


async def named_alike(make):
    @tool
    @count.tool
    def twin() -> str:
        """Return a text."""
        return "x"

    await make(twin, model="twin", name="one").invoke_async("do twin")


async def nested(make):
    helper = make(add, model="helper", name="inner").as_tool(name="helper", description="Helps.")
    await make(helper, name="one").invoke_async("do helper")


async def handed_over(make):
    await Swarm([make(name="one"), make(name="two")]).invoke_async("do handoff_to_agent")


async def cancelled(make):
    started = asyncio.Event()

    @tool
    @count.tool
    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(make(wait, name="one").invoke_async("do wait"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_row_has_the_name_of_its_agent(recorded, make):
    asyncio.run(streamed(make))
    assert [row["gen_ai.agent.name"] for row in rows(recorded)] == ["one"]


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        pytest.param(
            in_turns, {"agents": {"one": 1}}, marks=pytest.mark.shape("turns", "parallel tools", "failing tool")
        ),
        pytest.param(streamed, {"agents": {"one": 1}}, marks=pytest.mark.shape("stream")),
        pytest.param(left_early, {"agents": {"one": 1}}, marks=pytest.mark.shape("stream left early")),
        pytest.param(named_alike, {"agents": {"one": 1}}, marks=pytest.mark.bad_input("tool named like a model")),
        pytest.param(
            nested,
            {"agents": {"one": 1, "inner": 1}, "nested": ("helper",), "own_tools": {"helper": 1}},
            marks=pytest.mark.shape("nested agent"),
        ),
        pytest.param(
            handed_over,
            {"agents": {"one": 1, "two": 1}, "named": "default_swarm", "own_tools": {"handoff_to_agent": 1}},
            marks=pytest.mark.shape("handoff"),
        ),
        pytest.param(cancelled, {"agents": {"one": 1}, "status": "cancelled"}, marks=pytest.mark.shape("cancelled")),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.bad_input("agent that swallows exceptions")
def test_a_run_is_recorded_as_the_program_counts_it(recorded, make, server, shape, facts):
    asyncio.run(shape(make))
    compare(recorded, count, server.requests, (INPUT_TOKENS, OUTPUT_TOKENS), **facts)


def test_a_run_with_parallel_failing_and_unknown_tools_is_one_row_of_one_trace(recorded, make):
    make(add, bad)("do add bad, nope")
    (row,) = rows(recorded)
    assert figures(row) == {
        "turns": 3, "models": 3, "tools": 3, "tool errors": 2, "input": 33, "output": 21, "status": "finished",
    }  # fmt: skip
    assert traces(recorded) == {row["rl.rollout.trace_id"]}
    assert scopes(recorded) == {NATIVE}
    assert names(recorded) == {
        "invoke_agent Strands Agents": 1, "execute_event_loop_cycle": 3, "chat": 3,
        "execute_tool add": 1, "execute_tool bad": 1, "execute_tool nope": 1,
    }  # fmt: skip


def test_a_failed_tool_has_the_type_of_its_error_and_its_outcome_on_the_span_of_strands(recorded, make):
    make(add, bad)("do add bad, nope")
    assert recorded.span("execute_tool bad").attributes["error.type"] == "ValueError"
    assert recorded.span("execute_tool bad").attributes["rl.tool.outcome"] == "tool_error"
    assert recorded.span("execute_tool nope").attributes["rl.tool.outcome"] == "unknown_tool"
    assert "error.type" not in recorded.span("execute_tool add").attributes


def test_strands_records_no_metric_of_the_conventions_so_ours_does_once_for_each_call(recorded, make):
    make(add, bad)("do add bad")
    points = recorded.metrics()
    durations = {
        point.attributes["gen_ai.tool.name"]: (point.count, point.attributes["rl.tool.outcome"])
        for point in points["gen_ai.execute_tool.duration"]
    }
    assert durations == {"add": (1, "ok"), "bad": (1, "tool_error")}
    assert sum(point.count for point in points["gen_ai.client.operation.duration"]) == 2


def test_the_time_to_the_first_chunk_is_on_the_span_of_strands_as_it_is_in_our_metric(recorded, make):
    make()("hi")
    assert recorded.span("chat").attributes["gen_ai.response.time_to_first_chunk"] > 0


def test_a_streamed_run_leaves_nothing_current_between_its_events(recorded, make):
    async def run():
        outside = otel_rl.trace_id()
        return [otel_rl.trace_id() == outside async for _ in make(add).stream_async("do add")]

    assert all(asyncio.run(run()))
    (row,) = rows(recorded)
    assert figures(row)["turns"] == 2
    assert traces(recorded) == {row["rl.rollout.trace_id"]}


def test_an_agent_that_is_a_tool_is_part_of_the_row_of_the_one_that_calls_it(recorded, make):
    helper = make(add, name="inner").as_tool(name="helper", description="Helps.")
    make(helper)("do helper")
    (row,) = rows(recorded)
    assert (row["rl.rollout.turns"], row["rl.rollout.tool_calls"], row["rl.rollout.status"]) == (2, 2, "finished")
    assert names(recorded)["invoke_agent inner"] == 1
    tool_span, inner = recorded.span("execute_tool helper"), recorded.span("invoke_agent inner")
    assert inner.parent.span_id == tool_span.context.span_id
    assert traces(recorded) == {row["rl.rollout.trace_id"]}


def test_a_graph_of_agents_is_one_row(recorded, make):
    builder = GraphBuilder()
    builder.add_node(make(add, name="one"), "one")
    builder.add_node(make(add, name="two"), "two")
    builder.add_edge("one", "two")
    builder.build()("do add")
    (row,) = rows(recorded)
    assert row["rl.rollout.model_calls"] >= 3
    assert traces(recorded) == {row["rl.rollout.trace_id"]}
    assert names(recorded)["invoke_graph"] == 1


def test_a_run_inside_of_a_rollout_is_the_rollouts_also_in_the_thread_that_strands_starts(recorded, make):
    with otel_rl.rollout("r"):
        make(add)("do add")
    (row,) = rows(recorded)
    assert row["rl.rollout.id"] == "r"
    assert (row["rl.rollout.turns"], row["rl.rollout.tool_calls"]) == (2, 1)
    assert len(traces(recorded)) == 1


def test_a_tool_of_a_cancelled_run_is_cancelled(recorded, make):
    asyncio.run(cancelled(make))
    assert recorded.span("execute_tool wait").attributes["rl.tool.outcome"] == "cancelled"


def test_an_agent_that_the_program_cancels_has_a_cancelled_run_though_it_raises_nothing(recorded, make):
    agent = make()

    @tool
    def stop() -> str:
        """Cancel the agent."""
        agent.cancel()
        return "stopped"

    agent.tool_registry.register_tool(stop)
    assert agent("do stop, stop").stop_reason == "cancelled"
    (row,) = rows(recorded)
    assert row["rl.rollout.status"] == "cancelled"


def test_the_retries_of_its_client_stay_on_the_span_of_strands(recorded, make, server):
    server.failures = 1
    make()("hi")
    assert recorded.span("chat").attributes["rl.inference.retries"] == 1


@pytest.fixture
def own_tracer(monkeypatch):
    """One that has read the environment as it is now."""
    monkeypatch.setattr(tracing, "_tracer_instance", None)


@pytest.mark.parametrize(
    ("switch", "told", "is_recorded"),
    [
        ("", "", False),
        ("", "gen_ai_latest_experimental,gen_ai_span_attributes_only", False),
        ("EVENT_ONLY", "", False),
        ("SPAN_ONLY", "", True),
        ("", "gen_ai_unredacted_attributes=gen_ai.*", True),
    ],
)
def test_strands_records_what_was_said_only_if_the_user_wants_it(
    switch, told, is_recorded, recorded, make, monkeypatch, own_tracer
):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", switch)
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", told)

    @tool
    def look() -> str:
        """Return a text."""
        return "the result"

    make(look, system_prompt="the system")("do look")
    recordings = str([(span.attributes, [event.attributes for event in span.events]) for span in recorded.spans])
    said = {"the result", "the system", "do look"}
    assert {text for text in said if text in recordings} == (said if is_recorded else set())


@pytest.mark.parametrize("switch", ["", "SPAN_ONLY"])
def test_what_strands_asks_of_a_memory_and_finds_in_it_is_content(switch, recorded, monkeypatch, own_tracer):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", switch)
    tracer = tracing.get_tracer()
    tracer.end_memory_search_span(tracer.start_memory_search_span("query", ["store"]), [])
    (span,) = recorded.spans
    assert [event.name for event in span.events] == (["memory.query", "memory.results"] if switch else [])


class _OwnModel(Model):
    """A model whose client has no instrumentor."""

    def update_config(self, **_):
        """Nothing to configure."""

    def get_config(self):
        return {}

    async def structured_output(self, *_, **__):
        yield {}

    async def stream(self, *_, **__):
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": "hi"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}
        yield {"metadata": {"usage": {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7}, "metrics": {}}}


def test_a_call_of_a_model_without_an_instrumented_client_counts_with_the_usage_that_strands_knows(recorded):
    Agent(model=_OwnModel(), callback_handler=None)("hi")
    (row,) = rows(recorded)
    assert (row["rl.rollout.turns"], row["rl.rollout.model_calls"]) == (1, 1)
    assert (row["rl.rollout.input_tokens"], row["rl.rollout.output_tokens"]) == (5, 2)
    assert names(recorded) == Counter({"invoke_agent Strands Agents": 1, "execute_event_loop_cycle": 1, "chat": 1})
    (duration,) = recorded.metrics()["gen_ai.client.operation.duration"]
    assert duration.count == 1
