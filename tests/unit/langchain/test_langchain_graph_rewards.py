"""The score in the state of a graph: that of the final state of the top graph, once."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda

import otel_rl
from otel_rl.core import settings
from otel_rl.training import trajectories

pytest.importorskip("langgraph")
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict, total=False):
    n: int
    reward: float


class Summed(TypedDict, total=False):
    n: int
    reward: Annotated[float, operator.add]


class Output(TypedDict):
    n: int


@pytest.fixture(autouse=True)
def _no_rows_of_others(mode):
    trajectories._forget()
    yield
    trajectories._forget()


@pytest.fixture
def rewards(recorded):
    """Gives the rewards of the rows, and checks that each score is one event and one point, too."""

    def of():
        trajectories.record()
        records = recorded.events("rl.trajectories")
        found = [reward for record in records for reward in record.body.get("rl.rollout.reward", [])]
        events = [e.attributes["gen_ai.evaluation.score.value"] for e in recorded.events("gen_ai.evaluation.result")]
        assert sum(events) == sum(reward for reward in found if reward is not None)
        assert sum(point.count for point in recorded.metrics().get("rl.reward.score", [])) == len(events)
        return found

    return of


def _rounds(scores, state=State, **options):
    """Acts and judges until there are no scores."""
    graph = StateGraph(state, **options)
    graph.add_node("act", lambda given: {"n": given["n"] + 1})
    graph.add_node("judge", lambda given: {"reward": scores[given["n"] - 1]})
    graph.add_edge(START, "act")
    graph.add_edge("act", "judge")
    graph.add_conditional_edges("judge", lambda given: END if given["n"] == len(scores) else "act")
    return graph


@pytest.mark.parametrize("scores", [[0.2, 0.5, 1.0], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [1.0, 0.0]])
def test_an_overwritten_score_is_that_of_the_final_state(scores, rewards):
    final = _rounds(scores).compile().invoke({"n": 0, "reward": 0.0})
    assert rewards() == [final["reward"]] == [scores[-1]]


async def test_so_it_is_in_an_asynchronous_run_and_in_a_stream(rewards):
    graph = _rounds([0.2, 0.5]).compile()
    await graph.ainvoke({"n": 0})
    for _ in graph.stream({"n": 0}):
        pass
    assert rewards() == [0.5, 0.5]


def test_a_score_with_a_reducer_is_the_reduced_one(rewards):
    final = _rounds([0.25, 0.5, 1.0], Summed).compile().invoke({"n": 0})
    assert rewards() == [final["reward"]] == [1.75]


def test_a_score_that_the_output_does_not_show_counts(rewards):
    options = (
        {"output_schema": Output} if "output_schema" in StateGraph.__init__.__annotations__ else {"output": Output}
    )
    assert _rounds([0.2, 0.5], **options).compile().invoke({"n": 0}) == {"n": 2}
    assert rewards() == [0.5]


def test_a_score_that_only_the_caller_has_set_is_none(rewards):
    graph = StateGraph(State)
    graph.add_node("act", lambda given: {**given, "n": 1})
    graph.add_edge(START, "act")
    graph.compile().invoke({"n": 0, "reward": 0.0})
    assert rewards() == []


def test_subgraphs_count_once_as_a_node_and_inside_of_one(rewards):
    inner = _rounds([0.2, 0.5]).compile()
    outer = StateGraph(State)
    outer.add_node("as node", inner)
    outer.add_node("in code", lambda given: {"reward": given["reward"] + inner.invoke({"n": 0})["reward"]})
    outer.add_edge(START, "as node")
    outer.add_edge("as node", "in code")
    assert outer.compile().invoke({"n": 0})["reward"] == 1.0
    assert rewards() == [1.0]


def test_a_graph_inside_of_a_chain_is_a_top_graph(rewards):
    graph = _rounds([0.2, 0.5]).compile()
    (RunnableLambda(lambda n: {"n": n}) | graph).invoke(0)
    RunnableLambda(lambda n: graph.invoke({"n": n})).invoke(0)
    assert rewards() == [0.5, 0.5]


def test_each_top_graph_of_a_rollout_adds_its_score(rewards):
    graph = _rounds([0.2, 0.5]).compile()
    with otel_rl.rollout():
        graph.invoke({"n": 0})
        graph.invoke({"n": 0})
    assert rewards() == [1.0]


def test_the_graph_of_a_tool_or_of_a_judge_has_no_score_of_the_rollout(rewards):
    graph = _rounds([0.2, 0.5]).compile()

    @otel_rl.reward_function("judged")
    def judged():
        return graph.invoke({"n": 0})["reward"] / 2

    with otel_rl.rollout():
        with otel_rl.tool("delegate"):
            graph.invoke({"n": 0})
        judged()
    assert rewards() == [0.25]


def _asking(first_score, last_score):
    """Sets a score where there is one, asks the user, and sets another where there is one."""

    def judge(score):
        return lambda _: {} if score is None else {"reward": score}

    graph = StateGraph(State)
    graph.add_node("before", judge(first_score))
    graph.add_node("ask", lambda _: {"n": interrupt("go on?")})
    graph.add_node("after", judge(last_score))
    for start, end in ((START, "before"), ("before", "ask"), ("ask", "after")):
        graph.add_edge(start, end)
    return graph.compile(checkpointer=MemorySaver())


@pytest.mark.parametrize(
    ("first", "last", "counted"), [(0.5, 1.0, 1.0), (0.5, None, 0.5), (None, 1.0, 1.0), (None, None, None)]
)
def test_an_interrupted_run_has_no_score_and_the_one_that_resumes_it_has(first, last, counted, rewards):
    graph, config = _asking(first, last), {"configurable": {"thread_id": "1"}}
    graph.invoke({"n": 0, "reward": 0.0}, config)
    assert [reward for reward in rewards() if reward is not None] == []
    graph.invoke(Command(resume=3), config)
    graph.invoke(None, config)
    assert [reward for reward in rewards() if reward is not None] == ([] if counted is None else [counted])


def test_a_later_run_of_a_thread_does_not_count_the_score_of_the_one_before(rewards):
    graph = StateGraph(State)
    graph.add_node("judge", lambda given: {"reward": 1.0} if given["n"] == 0 else {})
    graph.add_edge(START, "judge")
    compiled, config = graph.compile(checkpointer=MemorySaver()), {"configurable": {"thread_id": "1"}}
    for n in (0, 1):
        assert compiled.invoke({"n": n}, config)["reward"] == 1.0
    assert [reward for reward in rewards() if reward is not None] == [1.0]


def test_a_run_that_fails_has_the_score_that_it_had_reached(rewards):
    def fails(_):
        raise ValueError("no")

    graph = StateGraph(State)
    graph.add_node("judge", lambda _: {"reward": 0.5})
    graph.add_node("fails", fails)
    graph.add_edge(START, "judge")
    graph.add_edge("judge", "fails")
    with pytest.raises(ValueError, match="no"):
        graph.compile().invoke({"n": 0})
    assert rewards() == [0.5]


def test_a_score_in_a_command_to_the_graph_above_and_in_a_list_of_commands_counts(rewards):
    inner = StateGraph(State)
    inner.add_node("judge", lambda _: Command(graph=Command.PARENT, update={"reward": 0.5}))
    inner.add_edge(START, "judge")
    outer = StateGraph(State)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    outer.compile().invoke({"n": 0})
    several = StateGraph(State)
    several.add_node("judge", lambda _: [Command(update={"reward": 0.75}), {"n": 1}])
    several.add_edge(START, "judge")
    several.compile().invoke({"n": 0})
    assert rewards() == [0.5, 0.75]


@dataclass
class Typed:
    n: int = 0
    reward: float | None = None


def test_a_score_in_a_state_of_a_class_counts(rewards):
    graph = StateGraph(Typed)
    graph.add_node("judge", lambda _: Typed(1, 0.5))
    graph.add_edge(START, "judge")
    graph.compile().invoke(Typed())
    assert rewards() == [0.5]


def test_a_functional_graph_has_the_score_that_it_returns(rewards):
    functional = pytest.importorskip("langgraph.func")

    @functional.entrypoint()
    def flow(n):
        return {"n": n, "reward": 0.5}

    assert flow.invoke(1)["reward"] == 0.5
    assert rewards() == [0.5]


@pytest.mark.parametrize(("value", "name"), [("score", "score"), ("none", None), ("None", None)])
def test_the_user_names_the_key_or_switches_it_off(value, name, monkeypatch, recorded, rewards):
    monkeypatch.setenv("OTEL_RL_GRAPH_REWARD", value)
    settings.reset()

    class Named(State):
        score: float

    graph = StateGraph(Named)
    graph.add_node("judge", lambda _: {"reward": 0.25, "score": 0.5})
    graph.add_edge(START, "judge")
    graph.compile().invoke({"n": 0})
    assert [reward for reward in rewards() if reward is not None] == ([] if name is None else [0.5])
    assert [e.attributes["gen_ai.evaluation.name"] for e in recorded.events("gen_ai.evaluation.result")] == (
        [] if name is None else [name]
    )
    monkeypatch.undo()
    settings.reset()
