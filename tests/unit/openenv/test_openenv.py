"""Steps and episodes of OpenEnv's client against its own server."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

pytest.importorskip("openenv.core.env_client")

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from openenv.core.generic_client import GenericEnvClient
from openenv.core.sync_client import SyncEnvClient

import otel_rl
from otel_rl.instrumentors.openenv import OpenEnvInstrumentor
from otel_rl.telemetry import deferral
from otel_rl.training import trajectories


class Move(Action):
    by: int = 1


class Place(Observation):
    at: int = 0


class Line(Environment):
    """Ends at 3; a step back fails, and one of 100 never returns in time."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self.at = 0

    def reset(self, **_):
        self.at = 0
        return Place(at=0)

    def step(self, action, **_):
        if action.by < 0:
            raise ValueError("no way back")
        if action.by == 100:
            IS_STUCK.set()
            STUCK.wait(20)
        self.at += action.by
        return Place(at=self.at, reward=float(action.by), done=self.at >= 3)

    @property
    def state(self):
        return State(episode_id="e", step_count=self.at)


IS_STUCK, STUCK = threading.Event(), threading.Event()


@pytest.fixture(scope="module")
def url():
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_fastapi_app(Line, Move, Place, max_concurrent_envs=4)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    STUCK.set()
    server.should_exit = True
    thread.join(10)


@pytest.fixture(autouse=True)
def instrumented(recorded):
    instrumentor = OpenEnvInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    assert not instrumentor.missing
    yield
    instrumentor.uninstrument()


async def play(url, *moves, timeout=20.0):
    async with GenericEnvClient(url, message_timeout_s=timeout) as client:
        # A parameter of the environment's, of whatever name.
        await client.reset(client="c")
        for move in moves:
            await client.step({"by": move})


async def cancel(url, *moves):
    IS_STUCK.clear()
    task = asyncio.create_task(play(url, *moves))
    await asyncio.to_thread(IS_STUCK.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def episodes(recorded):
    points = recorded.metrics()
    named = {"rl.environment.name": "GenericEnvClient", "rl.environment.evaluation": False}
    found = [point.value for point in points.get("rl.environment.episodes", ()) if point.attributes == named]
    returns = [
        point.value for point in points.get("rl.environment.episode.return.max", ()) if point.attributes == named
    ]
    return sum(found), max(returns, default=None)


def test_an_episode_outside_of_a_rollout_counts_by_environment_and_each_request_is_a_tool_call(recorded, url):
    asyncio.run(play(url, 1, 2))
    assert episodes(recorded) == (1, 3.0)
    names = [span.name for span in recorded.spans if span.name.startswith("execute_tool")]
    assert names == ["execute_tool GenericEnvClient.reset"] + ["execute_tool GenericEnvClient.step"] * 2


@pytest.mark.shape("failing tool", "cancelled")
@pytest.mark.parametrize("case", ["finished", "synchronous", "fails", "times out", "cancelled"])
def test_steps_in_a_rollout_are_its_tool_calls_and_the_return_is_its_metric(recorded, url, case):
    moves = {"fails": (1, -1), "times out": (1, 100), "cancelled": (1, 100)}.get(case, (1, 2))
    with otel_rl.rollout("r"):
        if case == "synchronous":
            with SyncEnvClient(GenericEnvClient(url)) as client:
                client.reset()
                for move in moves:
                    client.step({"by": move})
        elif case == "finished":
            asyncio.run(play(url, *moves))
        elif case == "cancelled":
            asyncio.run(cancel(url, *moves))
        else:
            with pytest.raises((RuntimeError, TimeoutError, asyncio.TimeoutError)):
                asyncio.run(play(url, *moves, timeout=2.0 if case == "times out" else 20.0))
    trajectories.record()
    deferral.drain_all()
    (record,) = recorded.events("rl.trajectories")
    fails = case in ("fails", "times out", "cancelled")
    row = {key: value[0] for key, value in record.body.items()}
    assert (row["rl.rollout.tool_calls"], row["rl.rollout.tool_errors"]) == (3, int(fails))
    assert (row["rl.rollout.metric.names"], row["rl.rollout.metric.values"]) == (
        "GenericEnvClient.return",
        [1.0 if fails else 3.0],
    )
    root = recorded.span("rl.rollout")
    steps = [span for span in recorded.spans if span.name.startswith("execute_tool")]
    assert {span.parent.span_id for span in steps} == {root.context.span_id}
    outcome = {"fails": "tool_error", "times out": "timeout", "cancelled": "cancelled"}.get(case, "ok")
    assert steps[-1].attributes["rl.tool.outcome"] == outcome
