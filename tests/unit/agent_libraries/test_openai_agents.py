"""Runs of the OpenAI Agents SDK, on the library itself, with a model that follows a script."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections import defaultdict
from contextlib import aclosing

import agents
import pytest
from agents import Agent, Runner, function_tool
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from openai import AsyncOpenAI
from opentelemetry import trace
from support.agent_truth import Count, compare
from support.agent_truth import rows as named_rows
from support.scripted_model import GIVEN, MADE, WAIT, ScriptedModel, rows, tree

import otel_rl
from otel_rl.instrumentors.openai import OpenAIInstrumentor
from otel_rl.instrumentors.openai_agents import OpenAIAgentsInstrumentor

ADD, BAD = ("add", {"a": 1, "b": 2}), ("bad", {})
SCRIPTS = {
    "plain": ["done"],
    "tools": [[ADD], [ADD, BAD], "done"],
    "raises": [[("raising", {})], "done"],
    "unfit": [[("add", {"a": "x"})], "done"],
    "slow": [[("slow", {})], "done"],
    "slow_raising": [[("slow_raising", {})], "done"],
    "unknown": [[("made_up", {})], "done"],
    "parent": [[("ask_helper", {"input": "?"})], "done"],
    "helper": [[ADD], "helped"],
    "triage": [[("transfer_to_expert", {})], "done"],
    "expert": [[ADD], [ADD], "answered"],
    "endless": [[ADD]],
    "waits": [WAIT],
    "twin": [[("twin", {})], "done"],
}


count = Count()


@pytest.fixture(scope="module")
def model():
    with ScriptedModel(SCRIPTS) as server:
        yield server


@pytest.fixture
def server(model):
    model.release.clear()
    model.slow_request_seen.clear()
    model.requests.clear()
    count.clear()
    yield model
    model.release.set()


@pytest.fixture(params=["tracing", "no tracing", "official"])
def library(request, pipeline, recorded, monkeypatch):
    """The library with its tracing, without, and beside the official instrumentor."""
    agents.set_tracing_disabled(request.param == "no tracing")
    agents.set_trace_processors([])
    official = None
    if request.param == "official":
        module = pytest.importorskip("opentelemetry.instrumentation.genai.openai_agents")
        official = module.OpenAIAgentsInstrumentor()
        official.instrument(skip_dep_check=True)
    instrumentors = OpenAIInstrumentor(), OpenAIAgentsInstrumentor()
    for one in instrumentors:
        one.instrument(skip_dep_check=True)
    yield request.param
    for one in (*instrumentors, *([official] if official else [])):
        one.uninstrument()


def knows_calls():
    """Whether this version has a function for the call of one tool, which is not required."""
    return not OpenAIAgentsInstrumentor().missing


@function_tool
@count.tool
async def add(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


@function_tool
@count.tool
def bad() -> str:
    raise ValueError("bad")


@function_tool(failure_error_function=None)
@count.tool
def raising() -> str:
    raise TimeoutError("late")


@function_tool(timeout=0.01)
async def slow() -> str:
    await asyncio.sleep(10)


@function_tool(timeout=0.01, timeout_behavior="raise_exception")
async def slow_raising() -> str:
    await asyncio.sleep(10)


@function_tool
@count.tool
def twin() -> str:
    return "x"


@pytest.fixture
def make(server):
    def agent(name, **values):
        client = AsyncOpenAI(base_url=server.base_url, api_key="x", max_retries=0)
        model = OpenAIChatCompletionsModel(model=name, openai_client=client)
        return Agent(name=name, model=model, **{"tools": [add, bad, raising, slow, slow_raising], **values})

    return agent


async def run(make, name, *, max_turns=10, **values):
    await Runner.run(make(name, **values), "go", max_turns=max_turns)


async def read(result):
    async for _ in result.stream_events():
        pass


async def plain(make, _):
    await run(make, "plain")


async def in_turns(make, _):
    await run(make, "tools")


async def streamed(make, _):
    await read(Runner.run_streamed(make("tools"), "go"))


async def left_early(make, _):
    async with aclosing(Runner.run_streamed(make("tools"), "go").stream_events()) as events:
        async for _ in events:
            break


async def stopped(make, server):
    result = Runner.run_streamed(make("waits"), "go")
    await asyncio.to_thread(server.wait_for_slow_request)
    result.cancel()
    await read(result)


async def cancelled(make, server):
    task = asyncio.ensure_future(run(make, "waits"))
    await asyncio.to_thread(server.wait_for_slow_request)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def limited(make, _):
    with pytest.raises(agents.MaxTurnsExceeded):
        await run(make, "endless", max_turns=2)


async def limited_stream(make, _):
    with pytest.raises(agents.MaxTurnsExceeded):
        await read(Runner.run_streamed(make("endless"), "go", max_turns=2))


async def raises(make, _):
    with pytest.raises(agents.UserError):
        await run(make, "raises")


async def unfit(make, _):
    await run(make, "unfit")


async def slow_tool(make, _):
    await run(make, "slow")


async def slow_tool_that_raises(make, _):
    with pytest.raises(agents.ToolTimeoutError):
        await run(make, "slow_raising")


async def unknown(make, _):
    with pytest.raises(agents.ModelBehaviorError):
        await run(make, "unknown")


async def guarded(make, _):
    @agents.input_guardrail(run_in_parallel=False)
    async def guard(*_):
        return agents.GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    with pytest.raises(agents.InputGuardrailTripwireTriggered):
        await run(make, "plain", input_guardrails=[guard])


async def nested(make, _):
    await run(make, "parent", tools=[make("helper").as_tool("ask_helper", "helps")])


async def named_alike(make, _):
    await run(make, "twin", tools=[twin])


async def handed_over(make, _):
    await run(make, "triage", handoffs=[make("expert")])


TOOLS = """
invoke_agent tools
. chat tools
. execute_tool add
. chat tools
. execute_tool add
. execute_tool bad (ValueError)
. chat tools
"""
ENDLESS = """
invoke_agent endless (agents.exceptions.MaxTurnsExceeded)
. chat endless
. execute_tool add
. chat endless
. execute_tool add
"""
RAISING = """
invoke_agent raises (agents.exceptions.UserError)
. chat raises
. execute_tool raising (TimeoutError)
"""
UNKNOWN = """
invoke_agent unknown (agents.exceptions.ModelBehaviorError)
. chat unknown
. execute_tool made_up (unknown_tool)
"""
NESTED = """
invoke_agent parent
. chat parent
. execute_tool ask_helper
. . invoke_agent helper
. . . chat helper
. . . execute_tool add
. . . chat helper
. chat parent
"""
HANDED_OVER = """
invoke_agent triage
. chat triage
invoke_agent expert
. chat expert
. execute_tool add
. chat expert
"""
GUARDED = "invoke_agent plain (agents.exceptions.InputGuardrailTripwireTriggered)"
CANCELLED = """
invoke_agent waits (asyncio.exceptions.CancelledError)
. chat waits (asyncio.exceptions.CancelledError)
"""
#: Shape -> its row (see `rows`), how the run ended, and what lies below it.
SHAPES = {
    plain: ((1, 1, 0, 0, 0, "finished"), "", "invoke_agent plain\n. chat plain"),
    in_turns: ((3, 3, 0, 3, 1, "finished"), "", TOOLS),
    streamed: ((3, 3, 0, 3, 1, "finished"), "", TOOLS),
    left_early: ((3, 3, 0, 3, 1, "finished"), "", TOOLS),
    stopped: ((0, 1, 0, 0, 0, "cancelled"), "asyncio.exceptions.CancelledError", CANCELLED),
    cancelled: ((0, 1, 0, 0, 0, "cancelled"), "asyncio.exceptions.CancelledError", CANCELLED),
    limited: ((2, 2, 0, 2, 0, "failed"), "agents.exceptions.MaxTurnsExceeded", ENDLESS),
    limited_stream: ((2, 2, 0, 2, 0, "failed"), "agents.exceptions.MaxTurnsExceeded", ENDLESS),
    raises: ((1, 1, 0, 1, 1, "failed"), "agents.exceptions.UserError", RAISING),
    unknown: ((1, 1, 0, 1, 1, "failed"), "agents.exceptions.ModelBehaviorError", UNKNOWN),
    guarded: ((0, 0, 0, 0, 0, "failed"), "agents.exceptions.InputGuardrailTripwireTriggered", GUARDED),
    nested: ((2, 2, 2, 2, 0, "finished"), "", NESTED),
    handed_over: ((3, 3, 0, 1, 0, "finished"), "", HANDED_OVER),
}


def expected(shape, library):
    """The tree of a shape; the official instrumentor has errors of its own, and none for runs."""
    _, error, below = SHAPES[shape]
    lines = [f"invoke_workflow Agent workflow{error and f' ({error})'}", *(f". {x}" for x in below.split("\n") if x)]
    return [line.partition(" (")[0] for line in lines] if library == "official" else lines


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_each_shape_of_a_run_is_one_trajectory_with_one_tree(library, recorded, make, server, shape):
    asyncio.run(shape(make, server))
    assert rows(recorded) == [SHAPES[shape][0]]
    found = tree(recorded.spans)
    assert [line.partition(" (")[0] for line in found] == [x.partition(" (")[0] for x in expected(shape, library)]
    if library != "official":
        assert found == expected(shape, library)


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        pytest.param(
            in_turns, {"agents": {"tools": 1}}, marks=pytest.mark.shape("turns", "parallel tools", "failing tool")
        ),
        pytest.param(streamed, {"agents": {"tools": 1}}, marks=pytest.mark.shape("stream")),
        # The library goes on with the run in the background.
        pytest.param(left_early, {"agents": {"tools": 1}}, marks=pytest.mark.shape("stream left early")),
        pytest.param(
            nested,
            {"agents": {"parent": 1, "helper": 1}, "nested": ("helper",), "own_tools": {"ask_helper": 1}},
            marks=pytest.mark.shape("nested agent"),
        ),
        pytest.param(handed_over, {"agents": {"triage": 1, "expert": 1}}, marks=pytest.mark.shape("handoff")),
        pytest.param(
            cancelled,
            {"agents": {"waits": 1}, "unanswered": 1, "status": "cancelled"},
            marks=pytest.mark.shape("cancelled"),
        ),
        pytest.param(named_alike, {"agents": {"twin": 1}}, marks=pytest.mark.bad_input("tool named like a model")),
        pytest.param(stopped, {"agents": {"waits": 1}, "unanswered": 1, "status": "cancelled"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.bad_input("agent that swallows exceptions")
def test_a_run_is_recorded_as_the_program_counts_it(library, recorded, make, server, shape, facts):
    asyncio.run(shape(make, server))
    compare(recorded, count, server.requests, (GIVEN, MADE), **facts)


def test_runs_at_the_same_time_are_trajectories_of_their_own(library, recorded, make, server):
    async def program():
        await asyncio.gather(*(shape(make, server) for shape in (nested, in_turns, handed_over, streamed)))
        assert trace.get_current_span() is trace.INVALID_SPAN

    asyncio.run(program())
    assert sorted(rows(recorded)) == sorted(SHAPES[shape][0] for shape in (nested, in_turns, handed_over, streamed))
    by_trace = defaultdict(list)
    for span in recorded.spans:
        by_trace[span.context.trace_id].append(span)
    trees = sorted([line.partition(" (")[0] for line in tree(spans)] for spans in by_trace.values())
    shapes = (nested, in_turns, handed_over, streamed)
    assert trees == sorted(expected(shape, "official") for shape in shapes)


def test_an_agent_names_the_one_that_handed_over_to_it(library, recorded, make, server):
    asyncio.run(handed_over(make, server))
    sources = {span.name: span.attributes.get("rl.agent.handoff.source") for span in recorded.spans}
    assert sources["invoke_agent expert"] == "triage"
    assert sources["invoke_agent triage"] is None


@pytest.mark.parametrize(
    ("shape", "outcomes"),
    [
        (in_turns, ["ok", "ok", "tool_error"]),
        (raises, ["timeout"]),
        (slow_tool, ["timeout"]),
        (slow_tool_that_raises, ["timeout"]),
        (unfit, ["invalid_arguments"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_tool_has_its_outcome_and_its_call_id(library, recorded, make, server, shape, outcomes):
    asyncio.run(shape(make, server))
    tools = [span for span in recorded.spans if span.name.startswith("execute_tool")]
    # On a span of others only a failure is ours: it may yet fail after a call that went well.
    assert sorted(span.attributes.get("rl.tool.outcome", "ok") for span in tools) == sorted(outcomes)
    if library != "official" and knows_calls():
        assert all(span.attributes["gen_ai.tool.call.id"].startswith("call_") for span in tools)


def test_arguments_and_results_are_recorded_by_our_switch_alone(library, recorded, make, server, monkeypatch):
    if library == "official":
        pytest.skip("the span is theirs")
    for wanted in (False, True):
        recorded.clear()
        if wanted:
            monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
        asyncio.run(nested(make, server))
        content = recorded.span("execute_tool add").attributes
        if knows_calls():
            assert content.get("gen_ai.tool.call.arguments") == ('{"a": 1, "b": 2}' if wanted else None)
        assert content.get("gen_ai.tool.call.result") == ("3" if wanted else None)


def test_the_run_of_a_rollout_has_no_row_of_its_own(library, recorded, make, server):
    if library == "official":
        pytest.skip("its spans nest by themselves")

    async def program():
        with otel_rl.rollout("r"):
            await handed_over(make, server)

    asyncio.run(program())
    assert len(rows(recorded)) == 1
    assert tree(recorded.spans) == ["rl.rollout", *expected(handed_over, library)[1:]]


@pytest.mark.parametrize(("given", "name"), [({}, "plain"), ({"workflow_name": "Support"}, "Support")])
@pytest.mark.parametrize("streams", [False, True])
def test_a_row_is_named_after_its_workflow_or_its_first_agent(library, recorded, make, given, name, streams):
    config = agents.RunConfig(**given)

    async def program():
        if streams:
            await read(Runner.run_streamed(make("plain"), "go", run_config=config))
        else:
            await Runner.run(make("plain"), "go", run_config=config)

    asyncio.run(program())
    (row,) = named_rows(recorded)
    assert row["gen_ai.agent.name"] == name


def test_the_conversation_is_that_of_the_run(library, recorded, make):
    config = agents.RunConfig(group_id="chat 1", workflow_name="Support")
    asyncio.run(Runner.run(make("plain"), "go", run_config=config))
    names = {span.name: span.attributes.get("gen_ai.conversation.id") for span in recorded.spans}
    assert names["invoke_workflow Support"] == names["chat plain"] == "chat 1"


def test_the_library_sends_and_lists_the_same_as_without_us(server):
    """In a program of its own: the first provider of a process makes the exporter."""
    program = """
        import asyncio, sys, agents
        from agents.tracing import setup
        from otel_rl.instrumentors.openai_agents import OpenAIAgentsInstrumentor
        OpenAIAgentsInstrumentor().instrument(skip_dep_check=True)
        assert setup.GLOBAL_TRACE_PROVIDER is None
        first = agents.tracing.get_trace_provider()._multi_processor._processors
        assert [type(one).__name__ for one in first] == ["BatchTraceProcessor"]
        OpenAIAgentsInstrumentor().uninstrument()
        assert agents.tracing.spans.SpanImpl.start.__module__ == "agents.tracing.spans"
        assert agents.tracing.get_trace_provider()._multi_processor._processors is first
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)


def test_agents_that_run_side_by_side_in_a_rollout_repeat_only_their_own_calls(library, recorded, make, server):
    async def program():
        with otel_rl.rollout("r"):
            await asyncio.gather(*(run(make, "triage", handoffs=[make("expert")]) for _ in range(4)))
        with otel_rl.rollout("loop"):
            await asyncio.gather(*(run(make, "tools") for _ in range(4)))

    asyncio.run(program())
    assert [row[3] for row in rows(recorded)] == [4, 12]
    (record,) = recorded.events("rl.trajectories")
    assert record.body["rl.rollout.repeated_tool"] == [None, "add"]
    assert record.body["rl.rollout.repeated_calls"] == [None, 2]
