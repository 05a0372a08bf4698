"""Each shape of an agent's run, as its program counts it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

import pytest
from support.agent_truth import Count, compare, rows
from support.scripted_model import GIVEN, MADE, WAIT, ScriptedModel

pytest.importorskip("langchain.agents.middleware", exc_type=ImportError)
pytest.importorskip("langchain_openai")
pytest.importorskip("langgraph")

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

ADD, BAD = ("add", {"a": 1, "b": 2}), ("bad", {})
SCRIPTS = {
    "tools": [[ADD], [ADD, BAD], "done"],
    "parent": [[("ask_helper", {})], "done"],
    "helper": [[ADD], "helped"],
    "triage": [[("hand_over", {})], "done"],
    # The answer of triage that asks for the handoff is in its messages, too.
    "expert": ["", [ADD], "answered"],
    "waits": [WAIT],
    "twin": [[("twin", {})], "done"],
}
count = Count()


@tool
@count.tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
@count.tool
def bad() -> str:
    """Fails."""
    raise ValueError("no")


bad.handle_tool_error = True


@tool
@count.tool
def twin() -> str:
    """Returns a text."""
    return "x"


@tool
def hand_over(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Hands over."""
    handed = ToolMessage("", tool_call_id=tool_call_id)
    return Command(goto="expert", graph=Command.PARENT, update={"messages": [handed]})


@pytest.fixture
def server(ours, follows_openai, recorded):
    count.clear()
    with ScriptedModel(SCRIPTS) as running:
        yield running


@pytest.fixture
def make(server):
    def agent(name, tools=(add, bad)):
        model = ChatOpenAI(model=name, base_url=server.base_url, api_key="none", max_retries=0, stream_usage=True)
        handled = wrap_tool_call(answer_errors)
        return create_agent(model, list(tools), name=name, middleware=[handled])

    return agent


def answer_errors(request, handler):
    """Let the agent go on after a tool that fails, as programs do."""
    try:
        return handler(request)
    except ValueError as error:
        return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")


QUESTION = {"messages": [("user", "go")]}


def in_turns(make, _):
    make("tools").invoke(QUESTION)


def streamed(make, _):
    list(make("tools").stream(QUESTION, stream_mode="messages"))


def left_early(make, _):
    stream = make("tools").stream(QUESTION, stream_mode="updates")
    for update in stream:
        if "tools" in update:
            break
    stream.close()


def nested(make, _):
    helper = make("helper")

    @tool
    def ask_helper() -> str:
        """Asks."""
        return helper.invoke(QUESTION)["messages"][-1].content

    make("parent", [ask_helper]).invoke(QUESTION)


def named_alike(make, _):
    make("twin", [twin]).invoke(QUESTION)


def handed_over(make, _):
    graph = StateGraph(MessagesState)
    graph.add_node("triage", make("triage", [hand_over]))
    graph.add_node("expert", make("expert"))
    graph.add_edge(START, "triage")
    graph.compile(name="team").invoke(QUESTION)


def cancelled(make, server):
    async def run():
        task = asyncio.create_task(make("waits").ainvoke(QUESTION))
        await asyncio.to_thread(server.wait_for_slow_request)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        pytest.param(
            in_turns, {"agents": {"tools": 1}}, marks=pytest.mark.shape("turns", "parallel tools", "failing tool")
        ),
        pytest.param(streamed, {"agents": {"tools": 1}}, marks=pytest.mark.shape("stream")),
        pytest.param(left_early, {"agents": {"tools": 1}}, marks=pytest.mark.shape("stream left early")),
        pytest.param(named_alike, {"agents": {"twin": 1}}, marks=pytest.mark.bad_input("tool named like a model")),
        pytest.param(
            nested,
            {"agents": {"parent": 1, "helper": 1}, "nested": ("helper",), "own_tools": {"ask_helper": 1}},
            marks=pytest.mark.shape("nested agent"),
        ),
        pytest.param(
            handed_over,
            {"agents": {"triage": 1, "expert": 1}, "named": "team", "own_tools": {"hand_over": 1}},
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
def test_a_run_is_recorded_as_the_program_counts_it(recorded, make, server, shape, facts):
    shape(make, server)
    compare(recorded, count, server.requests, (GIVEN, MADE), **facts)


@pytest.mark.bad_input("agent that swallows exceptions")
def test_a_node_that_swallows_the_exception_of_its_model_finishes_with_a_failed_call(recorded, server):
    model = ChatOpenAI(model="nobody", base_url=server.base_url, api_key="none", max_retries=0)

    def ask(state):
        with suppress(Exception):
            model.invoke(state["messages"])
        return {"messages": ["sorry"]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.compile(name="careless").invoke(QUESTION)
    (row,) = rows(recorded)
    assert (row["rl.rollout.status"], row["rl.rollout.model_calls"], row["rl.rollout.model_errors"]) == (
        "finished",
        1,
        1,
    )
    assert "error.type" in recorded.span("chat nobody").attributes
