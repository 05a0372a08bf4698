"""Runs of LlamaIndex's agent workflows, on the library itself, with a model that follows a script."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from opentelemetry import trace
from support.agent_truth import Count, compare
from support.scripted_model import GIVEN, MADE, WAIT, ScriptedModel, rows, tree
from workflows.errors import WorkflowCancelledByUser

from otel_rl.instrumentors.llama_index import LlamaIndexInstrumentor
from otel_rl.instrumentors.openai import OpenAIInstrumentor

ADD, BAD = ("add", {"a": 1, "b": 2}), ("bad", {})
SCRIPTS = {
    "plain": ["done"],
    "tools": [[ADD], [ADD, BAD], "done"],
    "unknown": [[("made_up", {})], "done"],
    "parent": [[("ask_helper", {})], "done"],
    "helper": [[ADD], "helped"],
    "triage": [[("handoff", {"to_agent": "expert", "reason": "?"})]],
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


@pytest.fixture(params=["ours", "official"])
def library(request, pipeline, recorded):
    """The library alone, and beside the official instrumentor."""
    official = None
    if request.param == "official":
        module = pytest.importorskip("opentelemetry.instrumentation.genai.llama_index")
        official = module.LlamaIndexInstrumentor()
        official.instrument(skip_dep_check=True)
    instrumentors = OpenAIInstrumentor(), LlamaIndexInstrumentor()
    for one in instrumentors:
        one.instrument(skip_dep_check=True)
    yield request.param
    for one in (*instrumentors, *([official] if official else [])):
        one.uninstrument()


@count.tool
async def add(a: int, b: int) -> int:
    """Add."""
    await asyncio.sleep(0)
    return a + b


@count.tool
def bad() -> str:
    """Fail."""
    raise TimeoutError("late")


@count.tool
def twin() -> str:
    """Return a text."""
    return "x"


@pytest.fixture
def make(server):
    def agent(name, tools=(add, bad), **values):
        llm = OpenAILike(
            model=name, api_base=server.base_url, api_key="x", is_chat_model=True, is_function_calling_model=True,
            max_retries=0,
        )  # fmt: skip
        return FunctionAgent(name=name, description=name, tools=list(tools), llm=llm, **values)

    return agent


async def plain(make, _):
    await make("plain").run("go")


async def in_turns(make, _):
    await make("tools").run("go")


async def not_streamed(make, _):
    await make("tools", streaming=False).run("go")


async def left_early(make, _):
    handler = make("tools").run("go")
    async for _event in handler.stream_events():
        break
    await handler


async def unknown(make, _):
    await make("unknown").run("go")


async def limited(make, _):
    with pytest.raises(Exception, match="iterations"):
        await make("endless").run("go", max_iterations=2)


async def named_alike(make, _):
    await make("twin", [twin]).run("go")


async def nested(make, _):
    helper = make("helper")

    async def ask_helper() -> str:
        """Ask."""
        return str(await helper.run("?"))

    await make("parent", [ask_helper]).run("go")


async def handed_over(make, _):
    agents = [make("triage", can_handoff_to=["expert"]), make("expert")]
    await AgentWorkflow(agents=agents, root_agent="triage").run("go")


async def cancelled(make, server):
    handler = make("waits").run("go")
    await asyncio.to_thread(server.wait_for_slow_request)
    await handler.cancel_run()
    with pytest.raises(WorkflowCancelledByUser):
        await handler


TOOLS = """
invoke_agent tools
. chat tools
. execute_tool add
. chat tools
. execute_tool add
. execute_tool bad (TimeoutError)
. chat tools
"""
UNKNOWN = """
invoke_agent unknown
. chat unknown
. execute_tool made_up (unknown_tool)
. chat unknown
"""
LIMITED = """
invoke_agent endless (workflows.errors.WorkflowRuntimeError)
. chat endless
. execute_tool add
. chat endless
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
invoke_workflow AgentWorkflow
. invoke_agent triage
. . chat triage
. . execute_tool handoff
. invoke_agent expert
. . chat expert
. . execute_tool add
. . chat expert
"""
CANCELLED = """
invoke_agent waits (cancelled)
. chat waits (asyncio.exceptions.CancelledError)
"""
#: Shape -> its row (see `rows`), and its tree.
SHAPES = {
    plain: ((1, 1, 0, 0, 0, "finished"), "invoke_agent plain\n. chat plain"),
    in_turns: ((3, 3, 0, 3, 1, "finished"), TOOLS),
    not_streamed: ((3, 3, 0, 3, 1, "finished"), TOOLS),
    left_early: ((3, 3, 0, 3, 1, "finished"), TOOLS),
    unknown: ((2, 2, 0, 1, 1, "finished"), UNKNOWN),
    limited: ((2, 2, 0, 1, 0, "failed"), LIMITED),
    nested: ((2, 2, 2, 2, 0, "finished"), NESTED),
    handed_over: ((3, 3, 0, 2, 0, "finished"), HANDED_OVER),
    cancelled: ((0, 1, 0, 0, 0, "cancelled"), CANCELLED),
}


def names(lines):
    """Without failures: the official instrumentor names them otherwise."""
    return [line.partition(" (")[0] for line in lines]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_each_shape_of_a_run_is_one_trajectory_with_one_tree(library, recorded, make, server, shape):
    asyncio.run(shape(make, server))
    row, text = SHAPES[shape]
    assert rows(recorded) == [row]
    found, expected = tree(recorded.spans), text.strip().split("\n")
    assert names(found) == names(expected)
    if library == "ours":
        assert found == expected


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        pytest.param(
            not_streamed, {"agents": {"tools": 1}}, marks=pytest.mark.shape("turns", "parallel tools", "failing tool")
        ),
        pytest.param(in_turns, {"agents": {"tools": 1}}, marks=pytest.mark.shape("stream")),
        # The library goes on with the run in the background.
        pytest.param(left_early, {"agents": {"tools": 1}}, marks=pytest.mark.shape("stream left early")),
        pytest.param(named_alike, {"agents": {"twin": 1}}, marks=pytest.mark.bad_input("tool named like a model")),
        pytest.param(
            nested,
            {"agents": {"parent": 1, "helper": 1}, "nested": ("helper",), "own_tools": {"ask_helper": 1}},
            marks=pytest.mark.shape("nested agent"),
        ),
        pytest.param(
            handed_over,
            {"agents": {"triage": 1, "expert": 1}, "named": "AgentWorkflow", "own_tools": {"handoff": 1}},
            marks=pytest.mark.shape("handoff"),
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
def test_a_run_is_recorded_as_the_program_counts_it(library, recorded, make, server, shape, facts):
    asyncio.run(shape(make, server))
    compare(recorded, count, server.requests, (GIVEN, MADE), **facts)


def test_runs_at_the_same_time_are_trajectories_of_their_own(library, recorded, make, server):
    shapes = (nested, in_turns, handed_over, not_streamed)

    async def program():
        await asyncio.gather(*(shape(make, server) for shape in shapes))
        assert trace.get_current_span() is trace.INVALID_SPAN

    asyncio.run(program())
    assert sorted(rows(recorded)) == sorted(SHAPES[shape][0] for shape in shapes)
    by_trace = defaultdict(list)
    for span in recorded.spans:
        by_trace[span.context.trace_id].append(span)
    trees = sorted(names(tree(spans)) for spans in by_trace.values())
    assert trees == sorted(names(SHAPES[shape][1].strip().split("\n")) for shape in shapes)


def test_tools_have_outcomes_and_an_agent_names_the_one_that_handed_over_to_it(library, recorded, make, server):
    for shape in (in_turns, unknown, handed_over):
        asyncio.run(shape(make, server))
    assert recorded.span("execute_tool bad").attributes["rl.tool.outcome"] == "timeout"
    assert recorded.span("execute_tool made_up").attributes["rl.tool.outcome"] == "unknown_tool"
    if library == "ours":
        assert recorded.span("invoke_agent expert").attributes["rl.agent.handoff.source"] == "triage"
        tools = [point.attributes["gen_ai.tool.name"] for point in recorded.metrics()["gen_ai.execute_tool.duration"]]
        assert "made_up" not in tools
