"""Rollouts of ``verifiers.v1``: an agent in a process of its own, behind the library's proxy."""

from __future__ import annotations

import asyncio
import sys

import pytest

pytest.importorskip("verifiers.v1.rollout")

import verifiers.v1 as vf
from support.scripted_chat import INPUT, OUTPUT, ScriptedChat
from verifiers.v1.agent import Agent
from verifiers.v1.configs.agent import AgentConfig, TimeoutConfig
from verifiers.v1.configs.client import EvalClientConfig
from verifiers.v1.envs.single_agent.env import SingleAgentEnv
from verifiers.v1.harness import Harness
from verifiers.v1.runtimes import SubprocessConfig

from otel_rl.instrumentors.httpx import HttpxInstrumentor
from otel_rl.instrumentors.verifiers import VerifiersInstrumentor
from otel_rl.telemetry import deferral
from otel_rl.training import trajectories

#: What an agent's program does: it asks until the model wants no tool.
PROGRAM = """
import json, sys, urllib.request
endpoint, secret, streams = sys.argv[1:]
messages = [{"role": "user", "content": "add"}]
while True:
    body = {"model": "policy", "messages": messages}
    if streams != "0":
        body["stream"] = True
    request = urllib.request.Request(endpoint + "/chat/completions", json.dumps(body).encode())
    request.add_header("authorization", "Bearer " + secret)
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request) as answer:
        if streams == "left":
            answer.readline()
            break
        text = answer.read().decode()
    if streams == "1":
        pieces = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        message = next(piece["choices"][0]["delta"] for piece in pieces if piece["choices"])
    else:
        message = json.loads(text)["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "3"})
"""


class Program(Harness):
    """Runs it in the runtime, as every harness does with a program of its own."""

    NEEDS_CONTAINER = False
    SUPPORTS_RESUME = True
    streams = "0"

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        return await runtime.run_program([sys.executable, "-c", PROGRAM, endpoint, secret, self.streams], {})


class Adding(vf.Task):
    @vf.reward(weight=2.0)
    async def is_right(self, trace):
        return 0.5

    @vf.metric
    async def length(self, trace):
        return 3.0


class Failing(vf.Task):
    async def setup(self, trace, runtime):
        raise RuntimeError("no room")


TURNS = {"policy": [[("add", {"a": 1}), ("add", {"a": 2})], "done"]}


@pytest.fixture(autouse=True)
def instrumented(recorded):
    instrumentors = HttpxInstrumentor(), VerifiersInstrumentor()
    for instrumentor in instrumentors:
        instrumentor.instrument(skip_dep_check=True)
    assert {name for name in instrumentors[1].missing if "Server" in name or "Rollout" in name} == set()
    yield
    for instrumentor in instrumentors:
        instrumentor.uninstrument()


def rows(recorded):
    trajectories.record()
    deferral.drain_all()
    return [{key: value[0] for key, value in record.body.items()} for record in recorded.events("rl.trajectories")]


def agent_of(server, monkeypatch, **options):
    monkeypatch.setenv("KEY_OF_TESTS", "k")
    client = EvalClientConfig(base_url=server.base_url, api_key_var="KEY_OF_TESTS")
    config = AgentConfig(model="policy", client=client, runtime=SubprocessConfig(), harness={"id": "null"}, **options)
    agent = Agent(config)
    agent.harness = Program(agent.harness.config)
    return agent


def task(kind=Adding):
    return kind(vf.TaskData(idx=4, prompt="add"))


@pytest.mark.shape("turns", "stream", "parallel tools")
@pytest.mark.parametrize("streams", ["0", "1"])
def test_a_rollout_has_its_model_calls_tools_rewards_and_ids_in_one_trace(recorded, monkeypatch, streams):
    with ScriptedChat(TURNS) as server:
        agent = agent_of(server, monkeypatch)
        agent.harness.streams = streams
        trace = asyncio.run(agent.run(task()))
    assert trace.errors == []
    (row,) = rows(recorded)
    assert row["rl.rollout.id"] == trace.id
    assert row["rl.sample.id"] == row["rl.group.id"] == trace.task.key
    assert row["rl.environment.name"] == "Adding"
    assert (row["rl.rollout.turns"], row["rl.rollout.model_calls"], row["rl.rollout.tool_calls"]) == (2, 2, 2)
    assert (row["rl.rollout.input_tokens"], row["rl.rollout.output_tokens"]) == (2 * INPUT, 2 * OUTPUT)
    assert (row["rl.rollout.reward"], row["rl.rollout.status"]) == (1.0, "finished")
    assert (row["rl.reward.names"], row["rl.reward.scores"], row["rl.reward.weights"]) == ("is_right", [0.5], 2.0)
    assert (row["rl.rollout.metric.names"], row["rl.rollout.metric.values"]) == ("length", [3.0])
    assert row["rl.rollout.stop_reason"] == "agent_completed"
    root = recorded.span("rl.rollout")
    calls = [span for span in recorded.spans if span.name == "chat policy"]
    assert {span.parent.span_id for span in calls} == {root.context.span_id}


@pytest.mark.shape("cancelled")
@pytest.mark.parametrize("case", ["model fails", "set-up fails", "time is over", "cancelled"])
def test_a_rollout_that_goes_wrong_is_a_row_with_its_reason(recorded, monkeypatch, case):
    made = []

    async def run(server):
        options = {"timeout": TimeoutConfig(rollout=1.0)} if case == "time is over" else {}
        agent, chosen = agent_of(server, monkeypatch, **options), task(Failing if case == "set-up fails" else Adding)
        running = asyncio.create_task(agent.run(chosen, on_trace=made.append))
        if case == "cancelled":
            await asyncio.to_thread(server.asked.wait, 20)
            running.cancel()
        return (await asyncio.gather(running, return_exceptions=True))[0]

    with ScriptedChat({"policy": [400 if case == "model fails" else "hang"]}) as server:
        asyncio.run(run(server))
    (row,) = rows(recorded)
    expected = {
        "model fails": ("failed", 1, 1),
        "set-up fails": ("failed", None, None),
        # Whether the program has asked by then depends on the machine, whether it is a failure on the library.
        "time is over": (
            "finished" if made[0].ok else "failed",
            row.get("rl.rollout.model_calls"),
            row.get("rl.rollout.model_errors"),
        ),
        "cancelled": ("cancelled", 1, 0),
    }[case]
    assert tuple(row.get(f"rl.rollout.{name}") for name in ("status", "model_calls", "model_errors")) == expected
    assert row.get("rl.rollout.stop_reason") == made[0].stop_condition


@pytest.mark.shape("stream left early")
def test_an_answer_that_the_agent_leaves_has_its_call_and_tokens(recorded, monkeypatch):
    with ScriptedChat(TURNS) as server:
        agent = agent_of(server, monkeypatch)
        agent.harness.streams = "left"
        asyncio.run(agent.run(task()))
    (row,) = rows(recorded)
    # The proxy reads the answer to its end.
    assert (row["rl.rollout.model_calls"], row["rl.rollout.status"]) == (1, "finished")
    assert (row["rl.rollout.input_tokens"], row["rl.rollout.output_tokens"]) == (INPUT, OUTPUT)


def test_all_turns_of_an_interaction_are_one_rollout_whichever_task_takes_them(recorded, monkeypatch):
    async def run(server):
        async with agent_of(server, monkeypatch).interaction(Adding(vf.TaskData(idx=4, prompt=None))) as interaction:
            for text in ("add", "again"):
                await asyncio.create_task(interaction.turn(text))

    with ScriptedChat(TURNS) as server:
        asyncio.run(run(server))
    (row,) = rows(recorded)
    assert (row["rl.rollout.model_calls"], row["rl.rollout.tool_calls"]) == (4, 4)
    assert row["rl.rollout.reward"] == 1.0


def test_rollouts_at_a_time_keep_their_calls_apart_and_have_the_name_of_their_environment(recorded, monkeypatch):
    class Env(SingleAgentEnv):
        def __init__(self):
            self.config = type(
                "C", (), {"env_id": "adding", "timeout": type("T", (), {"episode": None, "finalize": None})}
            )

        def _episode_agents(self, ctx, *_):
            return ctx

        async def run(self, task, agents):
            trace = await agents.run(task)
            trace.record_reward("of_the_episode", 3.0)
            raise ValueError("that is all")

    async def run(server):
        async with agent_of(server, monkeypatch) as agent:
            await asyncio.gather(*(Env().run_episode(task(), agent) for _ in range(3)))

    with ScriptedChat(TURNS) as server:
        asyncio.run(run(server))
    trajectories.record()
    deferral.drain_all()
    (record,) = recorded.events("rl.trajectories")
    assert record.body["rl.environment.name"] == ["adding"] * 3
    assert record.body["rl.rollout.model_calls"] == [2] * 3
    assert record.body["rl.rollout.reward"] == [4.0] * 3
    points = recorded.metrics()["rl.environment.episode.return.mean"]
    assert {point.attributes["rl.environment.name"] for point in points} >= {"adding"}
