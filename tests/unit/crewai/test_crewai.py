"""Crews against a server of the chat protocol."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

# Both send to the vendor otherwise.
os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"
pytest.importorskip("crewai")

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from support.agent_truth import Count, compare
from support.scripted_chat import INPUT, OUTPUT, ScriptedChat

import otel_rl
from otel_rl.instrumentors.crewai import CrewAIInstrumentor
from otel_rl.instrumentors.openai import OpenAIInstrumentor
from otel_rl.telemetry import deferral
from otel_rl.training import trajectories

count = Count()


@pytest.fixture(autouse=True)
def instrumented(recorded, monkeypatch, tmp_path):
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))
    count.clear()
    instrumentors = OpenAIInstrumentor(), CrewAIInstrumentor()
    for instrumentor in instrumentors:
        instrumentor.instrument(skip_dep_check=True)
    assert not instrumentors[1].missing
    yield
    for instrumentor in instrumentors:
        instrumentor.uninstrument()


@tool
@count.tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
@count.tool
def bad(a: int) -> int:
    """Fail."""
    raise ValueError("no such number")


TURNS = [[("add", {"a": 1, "b": 2})], [("bad", {"a": 1})], "done"]


def worker(server, model="m", **given):
    llm = LLM(model=f"openai/{model}", base_url=server.base_url, api_key="k", max_retries=0)
    return Agent(
        role="worker", goal="to add", backstory="none", tools=[add, bad], llm=llm, max_retry_limit=0, **given
    )  # fmt: skip


def crew(server, model="m", **given):
    agent = worker(server, model)
    task = Task(description="add", expected_output="a number", agent=agent)
    return Crew(agents=[agent], tasks=[task], name="adders", **given)


def run(shape, server):
    if shape == "alone":
        return worker(server).kickoff("add")
    if shape == "in a thread":
        return asyncio.run(crew(server).kickoff_async())
    if shape == "asynchronous":
        return asyncio.run(crew(server).akickoff())
    if shape == "streamed":
        output = crew(server, stream=True).kickoff()
        list(output)
        return output.result
    return crew(server).kickoff()


def row_of(recorded):
    deferral.drain_all()
    trajectories.record()
    deferral.drain_all()
    (record,) = recorded.events("rl.trajectories")
    return {key.removeprefix("rl.rollout."): values[0] for key, values in record.body.items()}


@pytest.mark.parametrize("shape", ["crew", "asynchronous", "in a thread", "streamed", "alone"])
def test_a_crew_is_one_row_and_one_tree(recorded, shape):
    with ScriptedChat({"m": TURNS}) as server:
        assert "done" in str(run(shape, server))
    row = row_of(recorded)
    assert (row["turns"], row["model_calls"], row["tool_calls"], row["tool_errors"]) == (3, 3, 2, 1)
    assert (row["input_tokens"], row["output_tokens"], row["status"]) == (3 * INPUT, 3 * OUTPUT, "finished")
    agent = recorded.span("invoke_agent worker")
    inside = [span for span in recorded.spans if span.name.startswith(("chat", "execute_tool"))]
    assert {span.parent.span_id for span in inside} == {agent.context.span_id}
    kinds = {span.name: span.attributes.get("error.type") for span in inside}
    assert kinds["execute_tool bad"] is not None
    assert kinds["execute_tool add"] is None
    if shape != "alone":
        assert agent.parent.span_id == recorded.span("invoke_workflow adders").context.span_id


ADD, BAD = ("add", {"a": 1, "b": 2}), ("bad", {"a": 1})
DELEGATE = ("delegate_work_to_coworker", {"task": "t", "context": "c", "coworker": "helper"})
PLANS = {
    "m": [[ADD, BAD], [("add", {"a": 2, "b": 2})], "done"],
    "boss": [[DELEGATE], "done"],
    "helper": ["helped"],
    "waits": ["hang"],
}


def in_turns(server):
    crew(server).kickoff()


def streamed(server):
    list(crew(server, stream=True).kickoff())


def left_early(server):
    before = set(threading.enumerate())
    for _ in crew(server, stream=True).kickoff():
        break
    # The library goes on with the run in the background.
    for thread in set(threading.enumerate()) - before:
        if thread.name.endswith("(run)"):
            thread.join(30)


def delegated(server):
    boss, helper = worker(server, "boss", allow_delegation=True), worker(server, "helper")
    helper.role = "helper"
    task = Task(description="add", expected_output="a number", agent=boss)
    Crew(agents=[boss, helper], tasks=[task], name="adders").kickoff()


def cancelled(server):
    async def run():
        task = asyncio.create_task(crew(server, "waits").akickoff())
        await asyncio.to_thread(server.asked.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.release.set()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        pytest.param(
            in_turns, {"agents": {"worker": 1}}, marks=pytest.mark.shape("turns", "parallel tools", "failing tool")
        ),
        pytest.param(streamed, {"agents": {"worker": 1}}, marks=pytest.mark.shape("stream")),
        pytest.param(left_early, {"agents": {"worker": 1}}, marks=pytest.mark.shape("stream left early")),
        pytest.param(
            delegated,
            {"agents": {"worker": 1, "helper": 1}, "nested": ("helper",), "own_tools": {DELEGATE[0]: 1}},
            marks=pytest.mark.shape("nested agent"),
        ),
        pytest.param(
            cancelled,
            # It asks in a thread, which goes on.
            {"agents": {"worker": 1}, "unanswered": 1, "late_answers": 1, "status": "cancelled"},
            marks=pytest.mark.shape("cancelled"),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.bad_input("agent that swallows exceptions")
def test_a_run_is_recorded_as_the_program_counts_it(recorded, shape, facts):
    with ScriptedChat(PLANS) as server:
        shape(server)
        compare(recorded, count, server.requests, (INPUT, OUTPUT), named="adders", **facts)


def test_tools_at_once_and_an_agent_that_another_one_delegates_to_are_where_they_belong(recorded):
    delegated = {"task": "t", "context": "c", "coworker": "helper"}
    turns = [[("add", {"a": 1, "b": 2}), ("add", {"a": 2, "b": 2})], [("delegate_work_to_coworker", delegated)], "done"]
    with ScriptedChat({"m": turns, "h": ["helped"]}) as server:
        boss = worker(server, allow_delegation=True)
        llm = LLM(model="openai/h", base_url=server.base_url, api_key="k", max_retries=0)
        helper = Agent(role="helper", goal="to help", backstory="none", llm=llm)
        task = Task(description="add", expected_output="a number", agent=boss)
        Crew(agents=[boss, helper], tasks=[task], name="adders").kickoff()
    row = row_of(recorded)
    assert (row["tool_calls"], row.get("tool_errors", 0), row["model_calls"]) == (3, 0, 3)
    assert row["tool_model_calls"] == 1
    nested, tool = recorded.span("invoke_agent helper"), recorded.span("execute_tool delegate_work_to_coworker")
    assert nested.parent.span_id == tool.context.span_id
    assert recorded.span("chat h").parent.span_id == nested.context.span_id
    assert tool.parent.span_id == recorded.span("invoke_agent worker").context.span_id


def test_a_crew_whose_model_fails_is_a_failed_row(recorded):
    with ScriptedChat({"m": [401]}) as server, pytest.raises(Exception):  # noqa: B017, PT011 - of a class of the version
        crew(server).kickoff()
    row = row_of(recorded)
    assert (row["status"], row["model_errors"]) == ("failed", row["model_calls"])


def test_a_crew_in_a_rollout_counts_there(recorded):
    with ScriptedChat({"m": TURNS}) as server, otel_rl.rollout("r"):
        crew(server).kickoff()
    row = row_of(recorded)
    assert (row["id"], row["tool_calls"], row["model_calls"]) == ("r", 2, 3)


def durations(recorded):
    points = recorded.metrics()["gen_ai.execute_tool.duration"]
    return {
        (point.attributes["gen_ai.tool.name"], point.attributes["rl.tool.outcome"]): point.count for point in points
    }


def test_a_tool_that_the_model_asks_for_in_text_is_recorded_by_its_own_name(recorded, monkeypatch):
    turns = [
        'Thought: go\nAction: ADD\nAction Input: {"a": 1, "b": 2}',
        'Thought: go\nAction: Bad\nAction Input: {"a": 1}',
        "Thought: so\nFinal Answer: done",
    ]
    with ScriptedChat({"m": turns}) as server:
        made = crew(server)
        monkeypatch.setattr(type(made.agents[0].llm), "supports_function_calling", lambda _: False)
        made.kickoff()
    assert durations(recorded) == {("add", "ok"): 1, ("bad", "tool_error"): 3}
    assert row_of(recorded)["tool_calls"] == 4


def test_a_tool_that_does_not_exist_is_unknown_and_its_name_on_no_metric(recorded):
    with ScriptedChat({"m": [[("made_up", {"a": 1})], "done"]}) as server:
        crew(server).kickoff()
    assert durations(recorded) == {("_OTHER", "unknown_tool"): 1}
    (event,) = recorded.events("rl.tool.unknown")
    assert event.attributes["gen_ai.tool.name"] == "made_up"
