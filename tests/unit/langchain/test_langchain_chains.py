"""Chains of LCEL: each model call counts in the run that asked for it; a run that asks no model is no trajectory."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import tool
from support.fake_openai import FakeOpenAI

import otel_rl
from otel_rl.training import trajectories

openai = pytest.importorskip("langchain_openai")

INPUT = {"x": "q"}


@pytest.fixture
def server():
    with FakeOpenAI() as running:
        yield running


@pytest.fixture
def model(server, mode, follows_openai):
    return openai.ChatOpenAI(model="tiny", base_url=server.base_url, api_key="none", max_retries=0)


@pytest.fixture
def rows(mode, recorded):
    """Gives a column of the rows of all trajectories that have ended."""
    trajectories._forget()

    def of(name):
        trajectories.record()
        bodies = [record.body for record in recorded.events("rl.trajectories") if record.body.get("rl.rollout.id")]
        return [value for body in bodies for value in body.get(name) or [None] * len(body["rl.rollout.id"])]

    yield of
    trajectories._forget()


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


#: Three inputs each; a form's number of calls per input.
FORMS = {
    "batch": lambda chain: chain.batch([INPUT] * 3),
    "abatch": lambda chain: asyncio.run(chain.abatch([INPUT] * 3)),
    "max_concurrency": lambda chain: chain.batch([INPUT] * 3, config={"max_concurrency": 1}),
    "config": lambda chain: chain.with_config(run_name="n").batch([INPUT] * 3),
    "retry": lambda chain: chain.with_retry().batch([INPUT] * 3),
    "retry, asynchronous": lambda chain: asyncio.run(chain.with_retry().abatch([INPUT] * 3)),
    "fallbacks": lambda chain: chain.with_fallbacks([chain]).batch([INPUT] * 3),
    "as completed": lambda chain: list(chain.batch_as_completed([INPUT] * 3)),
    "passthrough": lambda chain: RunnablePassthrough.assign(y=chain).batch([INPUT] * 3),
    "lambda": lambda chain: RunnableLambda(chain.invoke).batch([INPUT] * 3),
    "invoke": lambda chain: [chain.invoke(INPUT) for _ in range(3)],
    "stream": lambda chain: [list(chain.stream(INPUT)) for _ in range(3)],
}


@pytest.mark.parametrize("form", FORMS)
def test_each_call_of_a_chain_is_below_its_run_and_counts_in_its_row(form, model, server, rows, recorded, mode):
    FORMS[form](ChatPromptTemplate.from_template("{x}") | model | StrOutputParser())
    assert len(server.requests) == 3
    assert rows("rl.rollout.model_calls") == [1, 1, 1]
    ids = {span.context.span_id for span in recorded.spans if span.name.startswith("invoke_workflow")}
    chats = [span for span in recorded.spans if span.name.startswith("chat")]
    assert len(chats) == 3
    if mode == "ours":
        assert len({span.parent and span.parent.span_id for span in chats} & ids) == 3


def test_calls_of_parallel_chains_count_in_the_row_of_their_input(model, rows):
    chain = ChatPromptTemplate.from_template("{x}") | model
    RunnableParallel(a=chain, b=chain).batch([INPUT] * 2)
    assert rows("rl.rollout.model_calls") == [2, 2]


def test_what_the_program_has_made_current_inside_of_a_run_stays_the_parent(model, rows, recorded, mode):
    def ask(given):
        with otel_rl.span("inside"):
            return (ChatPromptTemplate.from_template("{x}") | model).batch([given])

    RunnableLambda(ask).invoke(INPUT)
    assert rows("rl.rollout.model_calls") == [1]
    if mode == "ours":
        assert recorded.span("chat tiny").parent.span_id == recorded.span("inside").context.span_id


def test_the_batch_of_a_tool_is_the_tools_and_that_of_a_nested_rollout_has_turns_of_its_own(model, rows):
    chain = ChatPromptTemplate.from_template("{x}") | model

    @tool
    def summarise(x: str) -> str:
        """Summarises."""
        return chain.batch([{"x": x}])[0].content

    with otel_rl.rollout(rollout_id="outer"):
        model.invoke("q")
        summarise.invoke({"x": "q"})
        with otel_rl.rollout(rollout_id="inner"):
            chain.batch([INPUT] * 2)
    found = dict(zip(rows("rl.rollout.id"), rows("rl.rollout.turns"), strict=True))
    assert found == {"outer": 1, "inner": 2}
    assert dict(zip(rows("rl.rollout.id"), rows("rl.rollout.tool_model_calls"), strict=True))["outer"] == 1


def test_a_completion_models_chain_has_its_call_in_its_row(model, server, rows):
    completions = openai.OpenAI(model="tiny", base_url=server.base_url, api_key="none", max_retries=0)
    chain = PromptTemplate.from_template("{x}") | completions
    chain.batch([INPUT])
    chain.invoke(INPUT)
    assert rows("rl.rollout.model_calls") == [1, 1]


DATA_ALONE = {
    "lambda": lambda: RunnableLambda(lambda x: x).invoke(1),
    "batch": lambda: RunnableLambda(lambda x: x).batch([1] * 5),
    "two": lambda: (RunnableLambda(lambda x: x) | RunnableLambda(lambda x: x)).invoke(1),
    "assign": lambda: RunnablePassthrough.assign(y=lambda _: 1).invoke({"x": 1}),
    "prompt": lambda: ChatPromptTemplate.from_template("{x}").invoke(INPUT),
    "parser": lambda: StrOutputParser().invoke("x"),
}


@pytest.mark.parametrize("form", DATA_ALONE)
def test_a_run_without_a_model_is_no_trajectory(form, rows, recorded):
    DATA_ALONE[form]()
    assert rows("rl.rollout.id") == []
    trajectories._record_all()
    assert "rl.trajectory.started" not in recorded.metrics()


@pytest.mark.parametrize("form", ["prompt", "parser"])
def test_a_step_of_a_chain_alone_has_no_span(form, ours, recorded):
    DATA_ALONE[form]()
    assert recorded.spans == []


def test_a_run_in_which_a_tool_or_a_reward_counts_is_a_trajectory(rows, recorded):
    RunnableLambda(lambda _: add.invoke({"a": 1, "b": 2})).invoke(1)
    RunnableLambda(lambda _: otel_rl.reward("r", 1.0)).invoke(1)
    assert rows("rl.rollout.status") == ["finished", "finished"]
    trajectories._record_all()
    assert sum(point.value for point in recorded.metrics()["rl.trajectory.started"]) == 2


def test_a_chain_whose_model_still_answers_has_begun(model, server, rows, recorded):
    from concurrent.futures import ThreadPoolExecutor

    slow = openai.ChatOpenAI(model="slow", base_url=server.base_url, api_key="none", max_retries=0)
    with ThreadPoolExecutor() as pool:
        running = pool.submit((ChatPromptTemplate.from_template("{x}") | slow).invoke, INPUT)
        server.wait_for_slow_request()
        trajectories._record_all()
        assert sum(point.value for point in recorded.metrics()["rl.trajectory.started"]) == 1
        server.release.set()
        running.result()
    assert rows("rl.rollout.model_calls") == [1]


def test_the_judges_chain_in_a_node_of_the_policys_graph_is_no_turn(model, rows, mode):
    if mode == "official":
        pytest.skip("its contexts do not have ours: a limit that docs/trajectories.md names")
    graph = pytest.importorskip("langgraph.graph")
    chain = ChatPromptTemplate.from_template("{x}") | model | StrOutputParser()

    @otel_rl.reward_function("judged")
    def judged(answer):
        return float(len(chain.invoke({"x": answer})) + len(chain.batch([{"x": answer}])))

    def act(_):
        judged(model.invoke("q").content)
        return {}

    agent = graph.StateGraph(graph.MessagesState)
    agent.add_node("act", act)
    agent.add_edge(graph.START, "act")
    agent.compile().invoke({"messages": []})
    assert (rows("rl.rollout.turns"), rows("rl.rollout.judge_calls")) == ([1], [2])
