"""Runs of Pydantic AI, on the library itself, with a model that follows a script."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

import pytest
from opentelemetry import trace
from pydantic_ai import Agent, InstrumentationSettings, ModelRetry, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from support.agent_truth import Count, compare
from support.fake_models import FakeModels
from support.scripted_model import GIVEN, MADE, WAIT, ScriptedModel, rows, tree

from otel_rl.instrumentors.anthropic import AnthropicInstrumentor
from otel_rl.instrumentors.fastmcp import FastMcpInstrumentor
from otel_rl.instrumentors.google_genai import GoogleGenAIInstrumentor
from otel_rl.instrumentors.mcp import McpInstrumentor
from otel_rl.instrumentors.openai import OpenAIInstrumentor
from otel_rl.instrumentors.pydantic_ai import PydanticAIInstrumentor
from otel_rl.telemetry import redaction
from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE
from otel_rl.training import trajectories

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_tool_server.py")
ADD, BAD = ("add", {"a": 1, "b": 2}), ("bad", {})
SCRIPTS = {
    "plain": ["done"],
    "tools": [[ADD], [ADD, BAD], "done"],
    "raises": [[("raising", {})], "done"],
    "refused": [[("made_up", {})], [("add", {"a": "x"})], "done"],
    "parent": [[("ask_helper", {})], "done"],
    "helper": [[ADD], "helped"],
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


@pytest.fixture
def instrumented(pipeline):
    kinds = OpenAIInstrumentor, AnthropicInstrumentor, GoogleGenAIInstrumentor, McpInstrumentor, PydanticAIInstrumentor
    instrumentors = [kind() for kind in kinds]
    for one in instrumentors:
        one.instrument(skip_dep_check=True)
    yield
    for one in instrumentors:
        one.uninstrument()


@count.tool
async def add(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


@count.tool
def bad() -> str:
    raise ModelRetry("again")


def raising() -> str:
    raise TimeoutError("late")


@count.tool
def twin() -> str:
    """Return a text."""
    return "x"


@pytest.fixture
def make(server, instrumented):
    def agent(name, **values):
        provider = OpenAIProvider(base_url=server.base_url, api_key="x")
        model = OpenAIChatModel(name, provider=provider)
        return Agent(model, name=name, **{"tools": [add, bad, raising], **values})

    return agent


async def plain(make, _):
    await make("plain").run("go")


async def in_turns(make, _):
    await make("tools").run("go")


async def streamed(make, _):
    async with make("tools").run_stream("go") as result:
        await result.get_output()


async def left_early(make, _):
    async with make("tools").iter("go") as run:
        async for node in run:
            if Agent.is_call_tools_node(node):
                break


async def text_left_early(make, _):
    async with make("plain").run_stream("go") as result:
        async for _ in result.stream_text():
            break


async def events(make, _):
    async with make("tools").run_stream_events("go") as stream:
        async for _ in stream:
            pass


async def limited(make, _):
    with pytest.raises(Exception, match="limit"):
        await make("endless").run("go", usage_limits=UsageLimits(request_limit=2))


async def raises(make, _):
    with pytest.raises(TimeoutError):
        await make("raises").run("go")


async def refused(make, _):
    await make("refused", retries=3).run("go")


async def named_alike(make, _):
    await make("twin", tools=[twin]).run("go")


async def nested(make, _):
    helper = make("helper")

    async def ask_helper() -> str:
        return (await helper.run("?")).output

    await make("parent", tools=[ask_helper]).run("go")


async def cancelled(make, server):
    task = asyncio.ensure_future(make("waits").run("go"))
    await asyncio.to_thread(server.wait_for_slow_request)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


TOOLS = """
invoke_agent tools
. chat tools
. execute_tool add
. chat tools
. execute_tool add
. execute_tool bad (pydantic_ai.exceptions.ModelRetry)
. chat tools
"""
LIMITED = """
invoke_agent endless
. chat endless
. execute_tool add
. chat endless
. execute_tool add
"""
RAISING = """
invoke_agent raises
. chat raises
. execute_tool raising (TimeoutError)
"""
#: Later versions have a function for calls that are refused for their arguments. In others they are failed spans of the
#: library, and no failed tool of the row.
KNOWS_REFUSED = hasattr(sys.modules["pydantic_ai.capabilities.instrumentation"], "_record_retry")
REFUSED = f"""
invoke_agent refused
. chat refused
. execute_tool made_up (unknown_tool)
. chat refused
. execute_tool add{" (invalid_arguments)" * KNOWS_REFUSED}
. chat refused
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
#: Shape -> its row (see `rows`), and its tree: failures are marked where the library has no `error.type` of its own.
SHAPES = {
    plain: ((1, 1, 0, 0, 0, "finished"), "invoke_agent plain\n. chat plain"),
    in_turns: ((3, 3, 0, 3, 1, "finished"), TOOLS),
    streamed: ((3, 3, 0, 3, 1, "finished"), TOOLS),
    events: ((3, 3, 0, 3, 1, "finished"), TOOLS),
    left_early: ((1, 1, 0, 0, 0, "finished"), "invoke_agent tools\n. chat tools"),
    limited: ((2, 2, 0, 2, 0, "failed"), LIMITED),
    raises: ((1, 1, 0, 1, 1, "failed"), RAISING),
    refused: ((3, 3, 0, 2, 1 + KNOWS_REFUSED, "finished"), REFUSED),
    nested: ((2, 2, 2, 2, 0, "finished"), NESTED),
    cancelled: ((0, 1, 0, 0, 0, "cancelled"), "invoke_agent waits\n. chat waits"),
}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_each_shape_of_a_run_is_one_trajectory_with_one_tree(recorded, make, server, shape):
    asyncio.run(shape(make, server))
    row, lines = SHAPES[shape]
    assert rows(recorded) == [row]
    assert tree(recorded.spans) == lines.strip().split("\n")


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        pytest.param(
            in_turns, {"agents": {"tools": 1}}, marks=pytest.mark.shape("turns", "parallel tools", "failing tool")
        ),
        pytest.param(streamed, {"agents": {"tools": 1}}, marks=pytest.mark.shape("stream")),
        pytest.param(events, {"agents": {"tools": 1}}, marks=pytest.mark.shape("stream")),
        pytest.param(left_early, {"agents": {"tools": 1}}),
        pytest.param(text_left_early, {"agents": {"plain": 1}}, marks=pytest.mark.shape("stream left early")),
        pytest.param(named_alike, {"agents": {"twin": 1}}, marks=pytest.mark.bad_input("tool named like a model")),
        pytest.param(
            nested,
            {"agents": {"parent": 1, "helper": 1}, "nested": ("helper",), "own_tools": {"ask_helper": 1}},
            marks=pytest.mark.shape("nested agent"),
        ),
        pytest.param(
            cancelled,
            {"agents": {"waits": 1}, "unanswered": 1, "status": "cancelled"},
            marks=pytest.mark.shape("cancelled"),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.bad_input("agent that swallows exceptions")
def test_a_run_is_recorded_as_the_program_counts_it(recorded, make, server, shape, facts):
    asyncio.run(shape(make, server))
    compare(recorded, count, server.requests, (GIVEN, MADE), **facts)


def test_runs_at_the_same_time_are_trajectories_of_their_own(recorded, make, server):
    shapes = (nested, in_turns, streamed, refused)

    async def program():
        await asyncio.gather(*(shape(make, server) for shape in shapes))
        assert trace.get_current_span() is trace.INVALID_SPAN

    asyncio.run(program())
    assert sorted(rows(recorded)) == sorted(SHAPES[shape][0] for shape in shapes)
    by_trace = defaultdict(list)
    for span in recorded.spans:
        by_trace[span.context.trace_id].append(span)
    assert sorted(tree(spans) for spans in by_trace.values()) == sorted(
        SHAPES[shape][1].strip().split("\n") for shape in shapes
    )


def test_the_first_span_of_a_run_stands_for_its_row(recorded, make):
    make("plain").run_sync("go")
    trajectories.record()
    (record,) = recorded.events("rl.trajectories")
    span = recorded.span("invoke_agent plain")
    assert record.body["rl.rollout.id"] == [span.attributes["rl.rollout.id"]]
    assert record.body["rl.rollout.trace_id"] == [f"{span.context.trace_id:032x}"]


def test_model_calls_and_tools_are_measured_once_by_us(recorded, make, server):
    asyncio.run(in_turns(make, server))
    points = recorded.metrics()
    assert sum(point.count for point in points["gen_ai.client.operation.duration"]) == 3
    assert sum(point.sum for point in points["gen_ai.client.token.usage"]) == 3 * (GIVEN + MADE)
    assert sum(point.count for point in points["gen_ai.execute_tool.duration"]) == 3


def _anthropic(url):
    pytest.importorskip("anthropic")
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return AnthropicModel("m", provider=AnthropicProvider(api_key="none", base_url=url))


def _google(url):
    pytest.importorskip("google.genai")
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleModel("m", provider=GoogleProvider(api_key="none", base_url=url))


@pytest.mark.parametrize(("model_at", "tokens"), [(_anthropic, 24), (_google, 18)])
def test_a_call_of_a_client_with_spans_or_operations_of_its_own_is_one_chat(recorded, instrumented, model_at, tokens):
    with FakeModels() as models:
        Agent(model_at(models.url), name="one").run_sync("go")
    assert tree(recorded.spans) == ["invoke_agent one", ". chat m"]
    points = recorded.metrics()
    assert [point.count for point in points["gen_ai.client.operation.duration"]] == [1]
    counted = points["gen_ai.client.token.usage"]
    assert sum(point.sum for point in counted) == tokens
    assert {point.attributes["gen_ai.operation.name"] for point in counted} == {"chat"}


def test_a_tool_of_an_mcp_server_counts_once(recorded, make):
    """The library uses FastMCP by its small distribution, which our instrumentor takes for the library."""
    transports = pytest.importorskip("fastmcp.client.transports")
    from pydantic_ai.mcp import MCPToolset

    FastMcpInstrumentor().instrument(raise_exception_on_conflict=True)
    server = transports.StdioTransport(sys.executable, [SERVER, "stdio"])
    try:
        make("tools", tools=[], toolsets=[MCPToolset(server, init_timeout=60)]).run_sync("go")
    finally:
        FastMcpInstrumentor().uninstrument()
    calls = [line for line in tree(recorded.spans) if "add" in line]
    assert calls == [". execute_tool add"] * 2
    assert sum(point.count for point in recorded.metrics()["gen_ai.execute_tool.duration"]) == 3


def test_spans_have_no_content_unless_it_is_switched_on_and_no_function_redacts_it(pipeline, monkeypatch):
    instrumentor = PydanticAIInstrumentor()
    for wanted, redacted in ((False, False), (True, False), (True, True)):
        monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "SPAN_ONLY" if wanted else "NO_CONTENT")
        monkeypatch.setattr(redaction, "redact", lambda redacted=redacted: str if redacted else None)
        instrumentor.instrument(skip_dep_check=True)
        assert Agent._instrument_default.include_content is (wanted and not redacted)
        instrumentor.uninstrument()
        assert Agent._instrument_default is False


def test_the_spans_are_on_in_a_program_that_imports_the_library_later():
    program = """
        from otel_rl.instrumentors.pydantic_ai import PydanticAIInstrumentor
        PydanticAIInstrumentor().instrument(skip_dep_check=True)
        from pydantic_ai import Agent
        assert not Agent._instrument_default.include_content
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)


def test_settings_of_the_program_stay_with_their_metrics(recorded, make, server):
    instrumentor = PydanticAIInstrumentor()
    instrumentor.uninstrument()
    own = InstrumentationSettings()
    Agent.instrument_all(own)
    instrumentor.instrument(skip_dep_check=True)
    assert Agent._instrument_default is own
    instrumentor.uninstrument()
    assert Agent._instrument_default is own
    Agent.instrument_all(instrument=False)
    instrumentor.instrument(skip_dep_check=True)
    Agent.instrument_all(own)
    asyncio.run(plain(make, server))
    assert sum(point.sum for point in recorded.metrics()["gen_ai.client.token.usage"]) == GIVEN + MADE
    Agent.instrument_all(instrument=False)


def test_a_run_without_spans_of_the_library_has_ours_and_the_row_its_trace(recorded, make, server):
    Agent.instrument_all(instrument=False)
    asyncio.run(in_turns(make, server))
    assert rows(recorded) == [SHAPES[in_turns][0]]
    (record,) = recorded.events("rl.trajectories")
    assert tree(recorded.spans) == TOOLS.strip().split("\n")
    span = recorded.span("invoke_agent tools")
    assert record.body["rl.rollout.trace_id"] == [f"{span.context.trace_id:032x}"]
