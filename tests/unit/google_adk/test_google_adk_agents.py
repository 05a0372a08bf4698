"""Runs of ADK's agents: their rows, and one span for each thing, which is ADK's own."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest
from support.agent_truth import Count, compare, figures, names, rows, scopes, traces
from support.fake_models import FakeModels
from support.scripted_openai import INPUT_TOKENS, OUTPUT_TOKENS

import otel_rl

pytest.importorskip("google.adk")
import openai
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

pytestmark = pytest.mark.usefixtures("instrumented")
NATIVE = "gcp.vertex.agent"
count = Count()


@count.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@count.tool
def bad() -> str:
    """Fail."""
    raise ValueError("no")


@count.tool
def refuse() -> dict:
    """Answer with an error."""
    count.failed["refuse"] += 1
    return {"error": "no"}


class OpenAIModel(BaseLlm):
    """A model of the program that asks a server of OpenAI's protocol."""

    base_url: str

    async def generate_content_async(self, llm_request, stream=False):
        messages = [message for content in llm_request.contents for message in _messages(content)]
        async with openai.AsyncOpenAI(api_key="none", base_url=self.base_url, max_retries=0) as client:
            answer = await client.chat.completions.create(model=self.model, messages=messages, stream=stream)
            if stream:
                chunks = [chunk async for chunk in answer]
                messages, usage = [chunk.choices[0].delta for chunk in chunks[:-1]], chunks[-1].usage
            else:
                messages, usage = [answer.choices[0].message], answer.usage
        parts = [
            types.Part.from_function_call(name=call.function.name, args=json.loads(call.function.arguments))
            for message in messages
            for call in message.tool_calls or ()
        ]
        said = "".join(message.content or "" for message in messages)
        content = types.Content(role="model", parts=parts or [types.Part.from_text(text=said)])
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=usage.prompt_tokens, candidates_token_count=usage.completion_tokens
        )
        yield LlmResponse(content=content, finish_reason=types.FinishReason.STOP, usage_metadata=used)


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
    count.clear()

    def agent(name, *tools, model="tiny", **given):
        return LlmAgent(name=name, model=OpenAIModel(model=model, base_url=server.base_url), tools=list(tools), **given)

    return agent


async def events(agent, prompt, **given):
    runner = InMemoryRunner(agent=agent, app_name="app")
    await runner.session_service.create_session(app_name="app", user_id="u", session_id="s")
    message = types.Content(role="user", parts=[types.Part.from_text(text=prompt)])
    async for event in runner.run_async(user_id="u", session_id="s", new_message=message, **given):
        yield event


async def ask(agent, prompt):
    return [event async for event in events(agent, prompt)]


async def in_turns(make):
    await ask(make("one", add, refuse), "do add refuse, add")


async def streamed(make):
    streaming = RunConfig(streaming_mode=StreamingMode.SSE)
    async for _ in events(make("one", add, refuse), "do add refuse, add", run_config=streaming):
        pass


async def left_early(make):
    async with aclosing(events(make("one", add), "do add, add")) as found:
        async for event in found:
            if event.get_function_responses():
                break


async def nested(make):
    await ask(make("outer", AgentTool(make("inner", add, model="helper"))), "do inner")


async def handed_over(make):
    await ask(make("one", sub_agents=[make("two", add)]), "do transfer_to_agent")


async def cancelled(make):
    started = asyncio.Event()

    @count.tool
    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(ask(make("one", wait), "do wait"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        pytest.param(
            in_turns,
            {"agents": {"one": 1}},
            marks=pytest.mark.shape("turns", "parallel tools", "failing tool"),
        ),
        pytest.param(streamed, {"agents": {"one": 1}}, marks=pytest.mark.shape("stream")),
        pytest.param(left_early, {"agents": {"one": 1}}, marks=pytest.mark.shape("stream left early")),
        pytest.param(
            nested,
            {"agents": {"outer": 1, "inner": 1}, "nested": ("helper",), "own_tools": {"inner": 1}},
            marks=pytest.mark.shape("nested agent"),
        ),
        pytest.param(
            handed_over,
            {"agents": {"one": 1, "two": 1}, "own_tools": {"transfer_to_agent": 1}},
            marks=pytest.mark.shape("handoff"),
        ),
        pytest.param(cancelled, {"agents": {"one": 1}, "status": "cancelled"}, marks=pytest.mark.shape("cancelled")),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_run_is_recorded_as_the_program_counts_it(recorded, make, server, shape, facts):
    asyncio.run(shape(make))
    compare(recorded, count, server.requests, (INPUT_TOKENS, OUTPUT_TOKENS), **facts)


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


def test_the_tool_of_a_cancelled_run_is_cancelled(recorded, make):
    asyncio.run(cancelled(make))
    assert recorded.span("execute_tool wait").attributes["rl.tool.outcome"] == "cancelled"


def test_a_run_inside_of_a_rollout_is_the_rollouts(recorded, make):
    async def run():
        with otel_rl.rollout("r"):
            await ask(make("one", add), "do add")

    asyncio.run(run())
    (row,) = rows(recorded)
    assert (row["rl.rollout.id"], row["rl.rollout.tool_calls"]) == ("r", 1)
    assert len(traces(recorded)) == 1
