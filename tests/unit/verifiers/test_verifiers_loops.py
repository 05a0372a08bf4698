"""Rollouts of the older API, in which the environment asks the model itself."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("verifiers.envs.multiturn_env")

import verifiers as vf
from datasets import Dataset
from openai import AsyncOpenAI
from support.scripted_chat import INPUT, OUTPUT, ScriptedChat
from verifiers.clients.openai_chat_completions_client import OpenAIChatCompletionsClient

from otel_rl.instrumentors.openai import OpenAIInstrumentor
from otel_rl.instrumentors.verifiers import VerifiersInstrumentor
from otel_rl.telemetry import deferral
from otel_rl.training import trajectories


@pytest.fixture(autouse=True)
def instrumented(recorded):
    instrumentors = OpenAIInstrumentor(), VerifiersInstrumentor()
    for instrumentor in instrumentors:
        instrumentor.instrument(skip_dep_check=True)
    yield
    for instrumentor in instrumentors:
        instrumentor.uninstrument()


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def bad(a: int) -> int:
    """Fail."""
    raise ValueError("no such number")


async def right(completion, **_) -> float:
    return 0.5


async def centred(states, **_) -> list[float]:
    return [float(place) for place, _ in enumerate(states)]


def environment(*functions, weights=None):
    rows = Dataset.from_list([{"question": f"add {number}", "answer": "3"} for number in range(2)])
    rubric = vf.Rubric(funcs=list(functions or [right]), weights=weights or [2.0])
    return vf.ToolEnv(
        dataset=rows, eval_dataset=rows, tools=[add, bad], rubric=rubric, max_turns=4, env_id="adding_loop"
    )


def body_of(recorded):
    trajectories.record()
    deferral.drain_all()
    (record,) = recorded.events("rl.trajectories")
    return record.body


def evaluate(server, env, **options):
    async def run():
        client = AsyncOpenAI(base_url=server.base_url, api_key="k", max_retries=0)
        return await env.evaluate(OpenAIChatCompletionsClient(client), "policy", **options)

    return asyncio.run(run())


TURNS = [[("add", {"a": 1}), ("bad", {"a": 2}), ("invented", {})], "done"]


@pytest.mark.bad_input("agent that swallows exceptions")
def test_each_rollout_is_a_row_with_its_calls_tools_and_weighted_scores(recorded):
    env = environment(right, weights=[2.0])
    with ScriptedChat({"policy": TURNS}) as server:
        evaluate(server, env, num_examples=2, rollouts_per_example=2)
    body = body_of(recorded)
    assert body["rl.environment.name"] == ["adding_loop"] * 4
    assert sorted(body["rl.group.id"]) == ["0", "0", "1", "1"]
    assert body["rl.rollout.turns"] == body["rl.rollout.model_calls"] == [2] * 4
    assert (body["rl.rollout.tool_calls"], body["rl.rollout.tool_errors"]) == ([3] * 4, [2] * 4)
    assert body["rl.rollout.input_tokens"] == [2 * INPUT] * 4
    assert body["rl.rollout.output_tokens"] == [2 * OUTPUT] * 4
    assert body["rl.rollout.stop_reason"] == ["no_tools_called"] * 4
    assert (body["rl.reward.names"], body["rl.reward.weights"]) == (["right"], [2.0])
    assert body["rl.rollout.reward"] == [1.0] * 4
    assert "num_turns" in body["rl.rollout.metric.names"]
    roots = {span.context.trace_id for span in recorded.spans if span.name == "rl.rollout"}
    inside = [span for span in recorded.spans if span.name.startswith(("chat", "execute_tool"))]
    assert {span.context.trace_id for span in inside} == roots
    assert len(roots) == 4
    kinds = {
        span.attributes["gen_ai.tool.name"]: span.attributes.get("error.type") for span in inside if "tool" in span.name
    }
    assert kinds == {"add": None, "bad": "ValueError", "invented": "unknown_tool"}
    episodes = recorded.metrics()["rl.environment.episodes"]
    assert [one.value for one in episodes if one.attributes["rl.environment.name"] == "adding_loop"] == [4]


def test_scores_of_a_whole_group_reach_each_of_its_rollouts(recorded):
    with ScriptedChat({"policy": ["done"]}) as server:
        evaluate(server, environment(right, centred, weights=[1.0, 1.0]), num_examples=1, rollouts_per_example=2)
    body = body_of(recorded)
    assert sorted(body["rl.rollout.reward"]) == [0.5, 1.5]
    assert set(body["rl.reward.names"]) == {"right", "centred"}


def test_a_model_that_fails_makes_the_rollout_fail(recorded):
    with ScriptedChat({"policy": [400]}) as server:
        evaluate(server, environment(), num_examples=1, rollouts_per_example=1)
    body = body_of(recorded)
    assert (body["rl.rollout.status"], body["rl.rollout.model_errors"]) == (["failed"], [1])
    assert body["rl.rollout.stop_reason"] == ["has_error"]
