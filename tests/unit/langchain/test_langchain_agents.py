"""Agents, graphs and nodes: one tree per rollout, with the model calls and tools in it."""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import nullcontext

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from opentelemetry import trace
from opentelemetry.trace import StatusCode

import otel_rl
from otel_rl.telemetry import drops
from otel_rl.training import trajectories

pytest.importorskip("langgraph")
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langgraph.graph import START, MessagesState, StateGraph
from support.fake_openai import FakeOpenAI

tracer = trace.get_tracer("program")


@pytest.fixture
def server():
    with FakeOpenAI() as running:
        yield running


@pytest.fixture
def chat_model(server, mode, follows_openai):
    ChatOpenAI = pytest.importorskip("langchain_openai").ChatOpenAI  # noqa: N806 - a class
    return ChatOpenAI(model="tiny", base_url=server.base_url, api_key="none", max_retries=0)


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


class Scripted(GenericFakeChatModel):
    """A model that says what it was told to say."""

    def bind_tools(self, *_, **__):
        return self


def _scripted(*calls):
    wanted = [{"name": n, "args": a, "id": f"c{i}", "type": "tool_call"} for i, (n, a) in enumerate(calls)]
    return Scripted(messages=iter([AIMessage("", tool_calls=wanted), AIMessage("done")]))


def _agent(model, tools, name):
    agents = pytest.importorskip("langchain.agents")
    if not hasattr(agents, "create_agent"):
        pytest.skip("this version of langchain has no create_agent")
    agent = agents.create_agent(model, tools, name=name)
    if "lc_agent_name" not in (agent.config or {}).get("metadata", {}):
        pytest.skip("this version of langchain does not say which graphs are agents")
    return agent


QUESTION = {"messages": [("user", "what is 1 + 2?")]}


def _parents(recorded):
    """Span name -> name of its parent."""
    names = {span.context.span_id: span.name for span in recorded.spans}
    return {span.name: names.get(span.parent.span_id) if span.parent else None for span in recorded.spans}


def _graph(chat, name="rollout graph"):
    graph = StateGraph(MessagesState)
    graph.add_node("think", lambda state: {"messages": [chat.invoke(state["messages"])]})
    graph.add_node("act", lambda _: {"messages": [AIMessage(str(add.invoke({"a": 1, "b": 2})))]})
    graph.add_edge(START, "think")
    graph.add_edge("think", "act")
    return graph.compile(name=name)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_rollout_is_one_trace_of_agent_model_call_and_tool(asynchronous, mode, chat_model, recorded, server):
    if asynchronous and mode == "ours" and sys.version_info < (3, 11):
        pytest.skip("LangGraph gives asynchronous nodes no context of their own before Python 3.11")
    graph = _graph(chat_model)
    with tracer.start_as_current_span("rollout"):
        if asynchronous:
            await graph.ainvoke(QUESTION)
        else:
            graph.invoke(QUESTION)
    parents = _parents(recorded)
    assert len({span.context.trace_id for span in recorded.spans}) == 1
    assert parents["invoke_workflow rollout graph"] == "rollout"
    if mode == "ours":
        assert parents["node think"] == parents["node act"] == "invoke_workflow rollout graph"
        assert parents["chat tiny"] == "node think"
        assert parents["execute_tool add"] == "node act"
    else:
        assert parents["chat tiny"] == parents["execute_tool add"] == "invoke_workflow rollout graph"
    assert [span.name for span in recorded.spans].count("chat tiny") == 1
    chat = recorded.span("chat tiny")
    assert chat.attributes["gen_ai.usage.input_tokens"] == 7
    assert chat.attributes["rl.inference.retries"] == 0
    assert server.requests[0][1]["traceparent"].split("-")[1] == f"{chat.context.trace_id:032x}"
    tokens = recorded.metrics()["gen_ai.client.token.usage"]
    assert sorted(point.attributes["gen_ai.token.type"] for point in tokens) == ["input", "output"]
    assert {point.count for point in tokens} == {1}


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_agent_has_a_span_with_its_name_and_a_duration(asynchronous, mode, recorded):
    agent = _agent(_scripted(("add", {"a": 1, "b": 2})), [add], "math")
    config = {"configurable": {"thread_id": "conversation-1"}}
    if asynchronous:
        await agent.ainvoke(QUESTION, config)
    else:
        agent.invoke(QUESTION, config)
    span = recorded.span("invoke_agent math")
    assert span.attributes["gen_ai.agent.name"] == "math"
    assert span.attributes["gen_ai.conversation.id"] == "conversation-1"
    assert span.status.status_code is StatusCode.UNSET
    (point,) = recorded.metrics()["gen_ai.invoke_agent.duration"]
    assert point.attributes["gen_ai.agent.name"] == "math"
    assert recorded.span("execute_tool add").context.trace_id == span.context.trace_id


@pytest.mark.parametrize("in_rollout", [False, True])
def test_a_model_call_of_an_agent_is_part_of_its_conversation(in_rollout, chat_model, mode, recorded):
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda state: {"messages": [chat_model.invoke(state["messages"])]})
    graph.add_edge(START, "ask")
    compiled = graph.compile(name="asking agent")
    with otel_rl.rollout("r") if in_rollout else nullcontext():
        compiled.invoke(QUESTION, {"configurable": {"thread_id": "conversation-1"}})
        recorded_in_agent = recorded.span("chat tiny").attributes
        chat_model.invoke("hi")

    assert recorded_in_agent["gen_ai.conversation.id"] == "conversation-1"
    after = [span for span in recorded.spans if span.name == "chat tiny"][-1]
    assert "gen_ai.conversation.id" not in after.attributes


def test_an_agent_inside_a_tool_is_below_the_tool(mode, recorded):
    inner = _agent(_scripted(("add", {"a": 1, "b": 2})), [add], "helper")

    @tool
    def ask(question: str) -> str:
        """Asks the helper."""
        return inner.invoke({"messages": [("user", question)]})["messages"][-1].content

    _agent(_scripted(("ask", {"question": "?"})), [ask], "boss").invoke(QUESTION)
    parents = _parents(recorded)
    assert parents["invoke_agent helper"] == "execute_tool ask"
    assert parents["invoke_agent boss"] is None


def test_an_agent_that_raises_is_an_error(mode, recorded):
    @tool
    def boom(x: int) -> int:
        """Raises."""
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        _agent(_scripted(("boom", {"x": 1})), [boom], "math").invoke(QUESTION)
    span = recorded.span("invoke_agent math")
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "ValueError")


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_workflow_has_a_duration_with_its_name(asynchronous, mode, recorded):
    graph = _graph(_scripted())
    if asynchronous:
        await graph.ainvoke(QUESTION)
    else:
        graph.invoke(QUESTION)

    (point,) = recorded.metrics()["gen_ai.invoke_workflow.duration"]
    assert (point.attributes["gen_ai.workflow.name"], point.count) == ("rollout graph", 1)
    assert "error.type" not in point.attributes


def test_a_workflow_that_raises_has_its_error_on_the_duration(mode, recorded):
    def fails(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        _judged(fails).invoke(UNSCORED)

    (point,) = recorded.metrics()["gen_ai.invoke_workflow.duration"]
    assert point.attributes["error.type"] == "ValueError"


def _flow(*, asynchronous=False):
    """An entry point of the functional API whose two tasks each call a tool."""
    functional = pytest.importorskip("langgraph.func")

    @functional.task
    def double(number):
        return add.invoke({"a": number, "b": number})

    @functional.task(name="sum of both")
    async def total(first, second):
        return await add.ainvoke({"a": first, "b": second})

    @functional.entrypoint()
    def flow(number):
        return double(number).result()

    @functional.entrypoint()
    async def asynchronous_flow(number):
        return await total(number, await double(number))

    return asynchronous_flow if asynchronous else flow


def test_a_task_of_the_functional_api_has_a_span_with_what_it_does_below(ours, recorded):
    assert _flow().invoke(3) == 6

    assert _parents(recorded) == {
        "execute_tool add": "node double",
        "node double": "node flow",
        "node flow": "invoke_workflow LangGraph",
        "invoke_workflow LangGraph": None,
    }
    assert recorded.span("node double").attributes["rl.agent.node.name"] == "double"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="LangGraph gives asynchronous tasks no context of their own")
async def test_an_asynchronous_task_has_a_span_too(ours, recorded):
    assert await _flow(asynchronous=True).ainvoke(3) == 9

    parents = _parents(recorded)
    assert parents["node double"] == parents["node sum of both"] == "node asynchronous_flow"
    assert [span.name for span in recorded.spans].count("execute_tool add") == 2


def test_a_task_that_raises_is_an_error(ours, recorded):
    functional = pytest.importorskip("langgraph.func")

    @functional.task
    def fails():
        raise ValueError("no")

    @functional.entrypoint()
    def flow(_):
        return fails().result()

    with pytest.raises(ValueError, match="no"):
        flow.invoke(1)
    span = recorded.span("node fails")
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "ValueError")


def test_a_task_inside_a_node_of_a_graph_is_below_the_node_and_what_runs_in_it_is_no_task(ours, recorded):
    functional = pytest.importorskip("langgraph.func")
    runnables = pytest.importorskip("langchain_core.runnables")

    @functional.task
    def judge(answer):
        steps = runnables.RunnableLambda(lambda text: text) | runnables.RunnableLambda(len)
        return {"reward": float(steps.invoke(answer))}

    _judged(lambda _: {"result": judge("four").result()["reward"]}).invoke(UNSCORED)

    assert _parents(recorded)["node judge"] == "node node 0"
    assert [span.name for span in recorded.spans].count("node judge") == 1
    assert _scores(recorded) == []


async def test_parallel_rollouts_do_not_mix(mode, chat_model, recorded):
    graph = _graph(chat_model)

    async def rollout(number):
        with tracer.start_as_current_span(f"rollout {number}"):
            await graph.ainvoke(QUESTION)

    await asyncio.gather(*(rollout(number) for number in range(4)))
    by_trace = {}
    for span in recorded.spans:
        by_trace.setdefault(span.context.trace_id, []).append(span.name)
    assert len(by_trace) == 4
    for names in by_trace.values():
        assert names.count("chat tiny") == names.count("execute_tool add") == 1


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_models_stream_that_is_left_early_is_no_error(asynchronous, mode, chat_model, recorded):
    from otel_rl.inference.dropped_answers import record_abandoned

    if asynchronous:
        stream = chat_model.astream("hi")
        await anext(stream)
        await stream.aclose()
    else:
        stream = chat_model.stream("hi")
        next(stream)
        stream.close()
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)
    record_abandoned()
    assert recorded.span("chat tiny").status.status_code is StatusCode.UNSET


def test_a_graph_whose_stream_is_left_early_is_no_error(ours, recorded):
    graph = _graph(_scripted())
    for _ in graph.stream(QUESTION):
        break
    assert recorded.span("invoke_workflow rollout graph").status.status_code is StatusCode.UNSET


def test_nothing_of_ours_is_current_while_the_program_reads_a_graphs_stream(ours, recorded):
    for _ in _graph(_scripted()).stream(QUESTION):
        assert trace.get_current_span() is trace.INVALID_SPAN


def test_nodes_know_their_agent(ours, recorded):
    _agent(_scripted(("add", {"a": 1, "b": 2})), [add], "math").invoke(QUESTION)
    node = recorded.span("node tools")
    assert node.attributes["rl.agent.node.name"] == "tools"
    assert node.attributes["gen_ai.agent.name"] == "math"


def test_spans_of_a_subgraph_are_below_its_node(ours, recorded):
    inner = StateGraph(MessagesState)
    inner.add_node("leaf", lambda _: {})
    inner.add_edge(START, "leaf")
    outer = StateGraph(MessagesState)
    outer.add_node("branch", inner.compile())
    outer.add_edge(START, "branch")
    outer.compile(name="tree").invoke({"messages": []})
    parents = _parents(recorded)
    assert parents == {"node leaf": "node branch", "node branch": "invoke_workflow tree", "invoke_workflow tree": None}


def test_a_node_that_sets_the_reward_scores_the_rollout(mode, recorded):
    class State(MessagesState):
        reward: float

    graph = StateGraph(State)
    graph.add_node("judge", lambda _: {"reward": 0.5})
    graph.add_edge(START, "judge")
    with tracer.start_as_current_span("rollout") as rollout:
        graph.compile().invoke({"messages": []})
    (event,) = recorded.events("gen_ai.evaluation.result")
    assert event.attributes["gen_ai.evaluation.name"] == "reward"
    assert event.attributes["gen_ai.evaluation.score.value"] == 0.5
    assert event.trace_id == rollout.get_span_context().trace_id
    trajectories.record()
    (record,) = recorded.events("rl.trajectories")
    assert record.body["rl.rollout.id"] == [event.attributes["rl.rollout.id"]]
    (point,) = recorded.metrics()["rl.reward.score"]
    assert (point.attributes["rl.reward.name"], point.sum) == ("reward", 0.5)


def test_open_runs_are_forgotten_when_they_end(mode, recorded):
    from otel_rl.instrumentors.langchain import runs

    _agent(_scripted(("add", {"a": 1, "b": 2})), [add], "math").invoke(QUESTION)
    assert runs._runs == {}


class Scored(MessagesState):
    reward: float
    result: int


def _judged(judge, *before):
    """A graph that ends with `judge`."""
    graph = StateGraph(Scored)
    names = [f"node {number}" for number in range(len(before) + 1)]
    for name, node in zip(names, (*before, judge), strict=True):
        graph.add_node(name, node)
    for start, end in zip((START, *names), names, strict=False):
        graph.add_edge(start, end)
    return graph.compile()


def _scores(recorded):
    return [event.attributes["gen_ai.evaluation.score.value"] for event in recorded.events("gen_ai.evaluation.result")]


UNSCORED = {"messages": [], "reward": 0.0, "result": 0}


def test_a_reward_set_in_a_subgraph_counts_once(mode, recorded):
    _judged(_judged(lambda _: {"reward": 1.0})).invoke(UNSCORED)
    assert _scores(recorded) == [1.0]


def test_a_reward_that_a_node_only_passes_on_is_none(mode, recorded):
    graph = _judged(lambda state: {**state, "reward": 0.25}, lambda state: {**state, "result": 3})
    graph.invoke(UNSCORED)
    assert _scores(recorded) == [0.25]


def test_a_reward_that_equals_the_one_before_counts(mode, recorded):
    _judged(lambda _: {"reward": 0.0}).invoke(UNSCORED)
    assert _scores(recorded) == [0.0]


def test_a_reward_in_a_command_counts(mode, recorded):
    command = pytest.importorskip("langgraph.types").Command
    _judged(lambda _: command(update={"reward": 0.75})).invoke(UNSCORED)
    assert _scores(recorded) == [0.75]


def test_any_real_number_is_a_reward_and_a_truth_value_is_counted_as_none(mode, recorded):
    numpy = pytest.importorskip("numpy")
    before = drops.snapshot().get(("metrics", "unsupported_type"), 0)
    _judged(lambda _: {"reward": numpy.float32(0.5)}).invoke(UNSCORED)
    _judged(lambda _: {"reward": True}).invoke(UNSCORED)
    assert _scores(recorded) == [0.5]
    assert drops.snapshot()["metrics", "unsupported_type"] == before + 1
