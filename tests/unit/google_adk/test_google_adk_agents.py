"""Runs of ADK's agents: their rows, and one span for each thing, which is ADK's own."""

from __future__ import annotations

import asyncio
import json

import pytest
from support.agent_truth import figures, names, rows, scopes, traces
from support.fake_models import FakeModels

import otel_rl

pytest.importorskip("google.adk")
import openai
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

pytestmark = pytest.mark.usefixtures("instrumented")
NATIVE = "gcp.vertex.agent"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def bad() -> str:
    """Fail."""
    raise ValueError("no")


def refuse() -> dict:
    """Answer with an error."""
    return {"error": "no"}


class OpenAIModel(BaseLlm):
    """A model of the program that asks a server of OpenAI's protocol."""

    base_url: str

    async def generate_content_async(self, llm_request, stream=False):
        messages = [message for content in llm_request.contents for message in _messages(content)]
        async with openai.AsyncOpenAI(api_key="none", base_url=self.base_url, max_retries=0) as client:
            answer = await client.chat.completions.create(model="tiny", messages=messages)
        message = answer.choices[0].message
        parts = [
            types.Part.from_function_call(name=call.function.name, args=json.loads(call.function.arguments))
            for call in message.tool_calls or ()
        ]
        content = types.Content(role="model", parts=parts or [types.Part.from_text(text=message.content)])
        yield LlmResponse(content=content, finish_reason=types.FinishReason.STOP)


def _messages(content):
    parts = content.parts or ()
    if any(part.function_call for part in parts):
        yield {"role": "assistant", "content": None}
    elif any(part.function_response for part in parts):
        yield {"role": "tool", "tool_call_id": "call", "content": "x"}
    else:
        role = "assistant" if content.role == "model" else "user"
        yield {"role": role, "content": "".join(part.text or "" for part in parts)}


@pytest.fixture
def make(server):
    model = OpenAIModel(model="tiny", base_url=server.base_url)
    return lambda name, *tools, **given: LlmAgent(name=name, model=model, tools=list(tools), **given)


async def events(agent, prompt):
    runner = InMemoryRunner(agent=agent, app_name="app")
    await runner.session_service.create_session(app_name="app", user_id="u", session_id="s")
    message = types.Content(role="user", parts=[types.Part.from_text(text=prompt)])
    async for event in runner.run_async(user_id="u", session_id="s", new_message=message):
        yield event


async def ask(agent, prompt):
    return [event async for event in events(agent, prompt)]


def test_a_run_with_parallel_refused_and_unknown_tools_is_one_row_of_one_trace(recorded, make):
    asyncio.run(ask(make("one", add, refuse), "do add refuse, nope"))
    (row,) = rows(recorded)
    assert figures(row) == {
        "turns": 3, "models": 3, "tools": 3, "tool errors": 2, "input": 33, "output": 21, "status": "finished",
    }  # fmt: skip
    assert traces(recorded) == {row["rl.rollout.trace_id"]}
    assert row["gen_ai.conversation.id"] == "s"
    assert scopes(recorded) == {NATIVE}
    found = names(recorded)
    assert found["generate_content tiny"] == 3
    assert found["execute_tool add"] == found["execute_tool refuse"] == found["execute_tool nope"] == 1
    assert recorded.span("execute_tool nope").attributes["rl.tool.outcome"] == "unknown_tool"
    assert recorded.span("execute_tool refuse").attributes["rl.tool.outcome"] == "tool_error"


def test_a_call_by_its_own_client_of_gemini_is_one_span_and_counts_once(recorded, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    with FakeModels() as server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        asyncio.run(ask(LlmAgent(name="one", model="gemini-2.5-flash"), "hi"))
        assert len(server.requests) == 1
    (row,) = rows(recorded)
    assert figures(row) == {
        "turns": 1, "models": 1, "tools": 0, "tool errors": 0, "input": 11, "output": 7, "status": "finished",
    }  # fmt: skip
    assert scopes(recorded) == {NATIVE}
    assert names(recorded)["generate_content gemini-2.5-flash"] == 1
    assert sum(point.count for point in recorded.metrics()["gen_ai.client.operation.duration"]) == 1


def test_adk_measures_tools_and_model_calls_so_ours_does_not(recorded, make):
    asyncio.run(ask(make("one", add), "do add"))
    points = recorded.metrics()
    assert sum(point.count for point in points["gen_ai.execute_tool.duration"]) == 1
    assert sum(point.count for point in points["gen_ai.client.operation.duration"]) == 2


def test_a_tool_that_raises_fails_the_run_and_its_span_has_both_types(recorded, make):
    with pytest.raises(ValueError, match="no"):
        asyncio.run(ask(make("one", bad), "do bad"))
    (row,) = rows(recorded)
    assert (row["rl.rollout.status"], row["rl.rollout.tool_errors"]) == ("failed", 1)
    attributes = recorded.span("execute_tool bad").attributes
    assert (attributes["error.type"], attributes["rl.tool.outcome"]) == ("ValueError", "tool_error")


def test_a_run_leaves_nothing_current_between_its_events(recorded, make):
    async def run():
        return {otel_rl.trace_id() async for _ in events(make("one", add), "do add")}

    outside = otel_rl.trace_id()
    assert asyncio.run(run()) == {outside}
    (row,) = rows(recorded)
    assert figures(row)["turns"] == 2


def test_an_agent_that_is_a_tool_is_part_of_the_row_of_the_one_that_calls_it(recorded, make):
    inner = make("inner", add)
    asyncio.run(ask(make("outer", AgentTool(inner)), "do inner"))
    (row,) = rows(recorded)
    assert (row["rl.rollout.turns"], row["rl.rollout.tool_calls"], row["rl.rollout.status"]) == (2, 2, "finished")
    assert names(recorded)["invoke_agent inner"] == names(recorded)["execute_tool add"] == 1
    assert traces(recorded) == {row["rl.rollout.trace_id"]}


def test_a_transfer_to_another_agent_is_a_tool_call_and_in_the_same_row(recorded, make, server):
    server._arguments["transfer_to_agent"] = {"agent_name": "two"}
    asyncio.run(ask(make("one", sub_agents=[make("two", add)]), "do transfer_to_agent"))
    (row,) = rows(recorded)
    assert row["rl.rollout.tool_calls"] == 1
    assert names(recorded)["invoke_agent two"] == 1
    assert traces(recorded) == {row["rl.rollout.trace_id"]}


def test_a_cancelled_task_is_a_cancelled_run(recorded, make):
    async def run():
        started = asyncio.Event()

        async def wait() -> str:
            """Wait for ever."""
            started.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(ask(make("one", wait), "do wait"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    (row,) = rows(recorded)
    assert row["rl.rollout.status"] == "cancelled"
    assert recorded.span("execute_tool wait").attributes["rl.tool.outcome"] == "cancelled"


def test_a_run_inside_of_a_rollout_is_the_rollouts(recorded, make):
    async def run():
        with otel_rl.rollout("r"):
            await ask(make("one", add), "do add")

    asyncio.run(run())
    (row,) = rows(recorded)
    assert (row["rl.rollout.id"], row["rl.rollout.tool_calls"]) == ("r", 1)
    assert len(traces(recorded)) == 1
