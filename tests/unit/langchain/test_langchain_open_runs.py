"""Open runs are bounded: what never ends makes room, and what is in use keeps its place."""

from __future__ import annotations

import asyncio
import gc
from uuid import uuid4

import pytest
from langchain_core.callbacks import CallbackManager
from langchain_core.messages import AIMessage
from opentelemetry.trace import StatusCode

from otel_rl.core import settings
from otel_rl.instrumentors.langchain import chains, runs
from otel_rl.telemetry import drops, held_traces
from otel_rl.training import trajectories

pytest.importorskip("langgraph")
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langgraph.graph import START, MessagesState, StateGraph

AGENT = {"lc_agent_name": "solver"}
NODE = {"metadata": {"langgraph_node": "model"}, "tags": ["graph:step:1"]}


def _open_rollout():
    """An agent with a node in it, both open, at the managers of LangChain itself."""
    top = CallbackManager([], metadata=AGENT).on_chain_start(None, {}, name="solver", run_id=uuid4())
    return top, _below(top)


def _below(top):
    manager = CallbackManager([], parent_run_id=top.run_id, metadata=NODE["metadata"], tags=NODE["tags"])
    return manager.on_chain_start(None, {}, name="model", run_id=uuid4())


def _spans(recorded, name):
    return [span for span in recorded.spans if span.name == name]


def _dropped():
    return drops.snapshot().get(("traces", "too_many_open_runs"), 0)


def test_8192_rollouts_at_once_keep_their_parents(ours, recorded):
    before = _dropped()
    rollouts = [_open_rollout() for _ in range(8192)]
    models = [_below(node) for _, node in rollouts]
    for manager in (*models, *(manager for pair in rollouts for manager in reversed(pair))):
        manager.on_chain_end({})
    agents = {span.context.span_id: span.context.trace_id for span in _spans(recorded, "invoke_agent solver")}
    nodes = {span.context.span_id: span.parent.span_id for span in _spans(recorded, "node model")}
    assert len(agents) == 8192
    assert len(nodes) == 2 * 8192
    assert sorted(agents) == sorted(parent for parent in nodes.values() if parent in agents)
    assert sorted(parent for parent in nodes.values() if parent in nodes) == sorted(
        span for span, parent in nodes.items() if parent in agents
    )
    assert _dropped() == before
    assert not runs._runs


def test_the_run_that_was_used_longest_ago_makes_room_and_ends(ours, recorded, monkeypatch):
    monkeypatch.setattr(runs, "MAXIMUM_RUNS", 4)
    before = _dropped()
    used = CallbackManager([], metadata=AGENT).on_chain_start(None, {}, name="solver", run_id=uuid4())
    abandoned, _ = _open_rollout()
    _open_rollout()
    # Five are too many by one. The oldest is not in use: it has gone, and its end was no error.
    (gone,) = recorded.spans
    assert gone.status.status_code is StatusCode.UNSET
    assert _dropped() == before + 1
    used.on_chain_end({})
    assert recorded.spans == [gone]
    # Of these four the oldest is in use now, so the next one goes.
    node = _below(abandoned)
    assert [span.name for span in recorded.spans] == ["invoke_agent solver", "node model"]
    node.on_chain_end({})
    abandoned.on_chain_end({})
    agent = _spans(recorded, "invoke_agent solver")[1]
    assert [span.parent.span_id for span in _spans(recorded, "node model")] == [agent.context.span_id] * 2
    assert _dropped() == before + 2
    chains.end_all()


def test_a_run_that_never_ends_ends_with_the_one_at_the_top(ours, recorded):
    top, _ = _open_rollout()
    top.on_chain_error(ValueError("no"))
    agent, node = recorded.span("invoke_agent solver"), recorded.span("node model")
    assert node.end_time <= agent.end_time
    assert node.status.status_code is StatusCode.UNSET
    assert agent.attributes["error.type"] == "ValueError"
    assert not runs._runs


def test_what_is_open_at_the_end_of_the_process_is_recorded(ours, recorded):
    _open_rollout()
    chains.end_all()
    assert {span.name for span in recorded.spans} == {"invoke_agent solver", "node model"}
    assert not runs._runs


async def test_abandoned_streams_of_events_do_not_fill_the_table(ours, recorded, monkeypatch):
    monkeypatch.setattr(runs, "MAXIMUM_RUNS", 8)
    graph = StateGraph(MessagesState)
    model = GenericFakeChatModel(messages=iter([AIMessage("a b c")] * 100))

    async def think(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph.add_node("think", think)
    graph.add_edge(START, "think")
    compiled = graph.compile(name="talk")
    question = {"messages": [("user", "q")]}
    for _ in range(20):
        async for _ in compiled.astream_events(question, version="v2"):
            break
        await asyncio.sleep(0)
        gc.collect()
    assert len(runs._runs) <= 8
    recorded.clear()
    await compiled.ainvoke(question)
    node, graph_span = recorded.span("node think"), _spans(recorded, "invoke_workflow talk")[-1]
    assert node.parent.span_id == graph_span.context.span_id
    chains.end_all()


def test_a_workflow_has_a_duration(ours, recorded):
    graph = StateGraph(MessagesState)
    graph.add_node("think", lambda _: {})
    graph.add_edge(START, "think")
    graph.compile(name="talk").invoke({"messages": []})
    (point,) = recorded.metrics()["gen_ai.invoke_workflow.duration"]
    assert (point.attributes["gen_ai.workflow.name"], point.count) == ("talk", 1)


def test_tasks_of_the_functional_api_are_nodes(ours, recorded):
    functional = pytest.importorskip("langgraph.func")

    @functional.task
    def double(x):
        return 2 * x

    @functional.entrypoint()
    def flow(x):
        return double(x).result() + double(x + 1).result()

    assert flow.invoke(3) == 14
    node = recorded.span("node flow")
    tasks = _spans(recorded, "node double")
    assert [span.parent.span_id for span in tasks] == [node.context.span_id] * 2


def test_agents_beyond_those_that_a_step_sends_keep_their_rows_and_lose_their_spans(ours, recorded, monkeypatch):
    monkeypatch.setenv("OTEL_RL_ROLLOUT_SPANS", "0")
    settings.reset()
    held_traces.forget()
    trajectories._forget()
    held = []
    monkeypatch.setattr(held_traces, "end", lambda trace, *_, **how: held.append((trace.trace_id, how["is_kept"])))
    for _ in range(3):
        top, node = _open_rollout()
        node.on_chain_end({})
        top.on_chain_end({})
    trajectories.record()
    roots = _spans(recorded, "invoke_agent solver")
    assert held == [(root.context.trace_id, False) for root in roots]
    [record] = recorded.events("rl.trajectories")
    assert len(record.body["rl.rollout.id"]) == 3
    held_traces.forget()
    monkeypatch.undo()
    settings.reset()
