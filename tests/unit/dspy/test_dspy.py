"""Programs of DSPy against a server of the chat protocol: what they ask, run and get wrong is one row."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest

pytest.importorskip("dspy")

import dspy
from support.agent_truth import Count, compare
from support.scripted_chat import INPUT, OUTPUT, ScriptedChat

import otel_rl
from otel_rl.instrumentors.dspy import DSPyInstrumentor
from otel_rl.instrumentors.openai import OpenAIInstrumentor
from otel_rl.telemetry import deferral
from otel_rl.training import trajectories

count = Count()


@pytest.fixture(autouse=True)
def instrumented(recorded):
    count.clear()
    instrumentors = OpenAIInstrumentor(), DSPyInstrumentor()
    for instrumentor in instrumentors:
        instrumentor.instrument(skip_dep_check=True)
    assert not [name for name in instrumentors[1].missing if "lm15" not in name]
    yield
    for instrumentor in instrumentors:
        instrumentor.uninstrument()


def fields(**values):
    """Return an answer in the form that DSPy asks for."""
    parts = [f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()]
    return "\n\n".join([*parts, "[[ ## completed ## ]]"])


def step(tool, **arguments):
    return fields(next_thought="now", next_tool_name=tool, next_tool_args=json.dumps(arguments))


@count.tool
def add(a: int, b: int) -> int:
    return a + b


@count.tool
def bad(a: int) -> int:
    raise ValueError("no such number")


def lm(server, model="m", **options):
    return dspy.LM(
        f"openai/{model}", api_base=server.base_url, api_key="k", **{"cache": False, "num_retries": 0, **options}
    )


def rows(recorded):
    trajectories.record()
    deferral.drain_all()
    return [{key: value[0] for key, value in record.body.items()} for record in recorded.events("rl.trajectories")]


ANSWER = fields(reasoning="so", answer="3")
AGENT = [step("add", a=1, b=2), step("bad", a=1), step("finish"), ANSWER]


def run(kind, model):
    agent = dspy.ReAct("question -> answer", tools=[add, bad], max_iters=5)
    with dspy.context(lm=model):
        if kind == "asynchronous":
            return asyncio.run(agent.acall(question="?"))
        return agent(question="?")


@pytest.mark.parametrize("kind", ["synchronous", "asynchronous"])
def test_an_agent_is_one_row_with_each_request_and_each_tool_in_its_trace(recorded, kind):
    with ScriptedChat({"m": AGENT}, in_order=True) as server:
        assert run(kind, lm(server)).answer == "3"
    (row,) = rows(recorded)
    assert (row["rl.rollout.turns"], row["rl.rollout.model_calls"]) == (4, 4)
    assert (row["rl.rollout.tool_calls"], row["rl.rollout.tool_errors"]) == (2, 1)
    assert (row["rl.rollout.input_tokens"], row["rl.rollout.output_tokens"]) == (4 * INPUT, 4 * OUTPUT)
    assert row["rl.rollout.status"] == "finished"
    root = recorded.span("invoke_agent ReAct")
    inside = [span for span in recorded.spans if span is not root]
    assert sorted(span.name for span in inside) == ["chat m"] * 4 + ["execute_tool add", "execute_tool bad"]
    assert {span.parent.span_id for span in inside} == {root.context.span_id}
    assert recorded.span("execute_tool bad").attributes["error.type"] == "ValueError"
    assert recorded.span("execute_tool add").attributes["rl.tool.outcome"] == "ok"
    call = next(span for span in inside if span.name == "chat m")
    assert call.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert call.attributes["server.address"] == "127.0.0.1"
    sent = {f"{span.context.span_id:016x}" for span in inside if span.name == "chat m"}
    assert {header.split("-")[2] for header in server.traceparents} == sent


def in_turns(server):
    run("synchronous", lm(server))


def streamed(server):
    async def read():
        with dspy.context(lm=lm(server)):
            agent = dspy.streamify(dspy.ReAct("question -> answer", tools=[add, bad], max_iters=5))
            return [item async for item in agent(question="?")]

    asyncio.run(read())


def left_early(server):
    async def leave():
        with dspy.context(lm=lm(server)):
            listener = dspy.streaming.StreamListener(signature_field_name="next_thought")
            agent = dspy.ReAct("question -> answer", tools=[add, bad], max_iters=5)
            program = dspy.streamify(agent, stream_listeners=[listener], is_async_program=True)
            async with aclosing(program(question="?")) as items:
                async for _ in items:
                    break

    asyncio.run(leave())


def nested(server):
    def ask_helper(question: str) -> str:
        with dspy.context(lm=lm(server, "helper")):
            return dspy.ReAct("question -> answer", tools=[add])(question=question).answer

    with dspy.context(lm=lm(server, "parent")):
        dspy.ReAct("question -> answer", tools=[ask_helper])(question="?")


def cancelled(server):
    async def ask():
        with dspy.context(lm=lm(server, "waits")):
            task = asyncio.create_task(dspy.ReAct("question -> answer", tools=[add]).acall(question="?"))
            await asyncio.to_thread(server.asked.wait, 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(ask())


PLANS = {
    "m": AGENT,
    "parent": [step("ask_helper", question="?"), step("finish"), ANSWER],
    "helper": [step("add", a=1, b=2), step("finish"), ANSWER],
    "waits": ["hang"],
}


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        pytest.param(in_turns, {"agents": {"ReAct": 1}}, marks=pytest.mark.shape("turns", "failing tool")),
        pytest.param(streamed, {"agents": {"ReAct": 1}}, marks=pytest.mark.shape("stream")),
        pytest.param(
            left_early,
            # The library cancels the run.
            {"agents": {"ReAct": 1}, "status": "cancelled"},
            marks=[
                pytest.mark.shape("stream left early"),
                pytest.mark.skipif(not hasattr(dspy, "lm15"), reason="before 3.4 DSPy has no client of its own"),
            ],
        ),
        pytest.param(
            nested,
            {"agents": {"ReAct": 2}, "nested": ("helper",), "own_tools": {"ask_helper": 1}},
            marks=pytest.mark.shape("nested agent"),
        ),
        pytest.param(
            cancelled,
            {"agents": {"ReAct": 1}, "unanswered": 1, "status": "cancelled"},
            marks=pytest.mark.shape("cancelled"),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.bad_input("agent that swallows exceptions")
def test_a_run_is_recorded_as_the_program_counts_it(recorded, shape, facts):
    with ScriptedChat(PLANS, in_order=True) as server:
        shape(server)
        compare(recorded, count, server.requests, (INPUT, OUTPUT), **facts)


def test_an_answer_of_the_cache_is_no_model_call(recorded, tmp_path):
    dspy.configure_cache(enable_disk_cache=False)
    with ScriptedChat({"m": [fields(answer="3")]}) as server, dspy.context(lm=lm(server, cache=True)):
        for _ in range(2):
            dspy.Predict("question -> answer")(question="the same")
        assert len(server.requests) == 1
    (row,) = rows(recorded)
    assert row["rl.rollout.model_calls"] == 1


def test_a_request_that_is_tried_again_is_a_failure_and_a_call(recorded):
    with ScriptedChat({"m": [503, fields(answer="3")]}, in_order=True) as server:
        with dspy.context(lm=lm(server, num_retries=1)):
            assert dspy.Predict("question -> answer")(question="?").answer == "3"
    (row,) = rows(recorded)
    # The client of older versions, openai, tries again within its call.
    expected = (2, 1) if hasattr(dspy, "lm15") else (1, 0)
    assert (row["rl.rollout.model_calls"], row["rl.rollout.model_errors"]) == expected


def test_a_program_that_fails_is_a_failed_row(recorded):
    with ScriptedChat({"m": [401]}) as server, dspy.context(lm=lm(server)):
        with pytest.raises(Exception):  # noqa: B017, PT011 - of a class of the version
            dspy.Predict("question -> answer")(question="?")
    (row,) = rows(recorded)
    assert (row["rl.rollout.status"], row["rl.rollout.model_errors"]) == ("failed", row["rl.rollout.model_calls"])


def test_an_agent_in_a_program_in_a_rollout_is_part_of_that_rollout(recorded):
    class Program(dspy.Module):
        def __init__(self):
            super().__init__()
            self.agent = dspy.ReAct("question -> answer", tools=[add])

        def forward(self, question):
            return self.agent(question=question)

    with ScriptedChat({"m": [step("finish"), ANSWER]}, in_order=True) as server, dspy.context(lm=lm(server)):
        with otel_rl.rollout("r"):
            Program()(question="?")
    (row,) = rows(recorded)
    assert (row["rl.rollout.id"], row["rl.rollout.model_calls"]) == ("r", 2)
    program, agent = recorded.span("invoke_workflow Program"), recorded.span("invoke_agent ReAct")
    assert agent.parent.span_id == program.context.span_id
    assert program.parent.span_id == recorded.span("rl.rollout").context.span_id


@pytest.mark.skipif(not hasattr(dspy, "lm15"), reason="before 3.4 DSPy has no client of its own")
def test_a_streamed_answer_is_one_call_with_its_tokens(recorded):
    async def stream(server):
        with dspy.context(lm=lm(server)):
            program = dspy.streamify(
                dspy.Predict("question -> answer"),
                stream_listeners=[dspy.streaming.StreamListener(signature_field_name="answer")],
            )
            return [item async for item in program(question="?")]

    with ScriptedChat({"m": [fields(answer="3")]}) as server:
        asyncio.run(stream(server))
    (row,) = rows(recorded)
    assert (row["rl.rollout.model_calls"], row["rl.rollout.output_tokens"]) == (1, OUTPUT)
    assert recorded.span("chat m").attributes["rl.inference.stream.ended"] == "completed"


def test_a_tool_may_have_a_parameter_of_any_name(recorded):
    def pick(tool: str) -> str:
        return tool

    assert dspy.Tool(pick)(tool="hammer") == "hammer"
    assert recorded.span("execute_tool pick").attributes["rl.tool.outcome"] == "ok"
