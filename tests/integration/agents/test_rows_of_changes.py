"""Which row has what is said of a rollout from elsewhere, by children, by names and by objects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.own_command import otel_rl

LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")

#: Three graphs in one step, each with a forked child that calls tools, and a later score by id.
AGENTS = """
import contextvars
import multiprocessing
from typing import TypedDict
from uuid import UUID

from langgraph.graph import END, START, StateGraph

import otel_rl

contexts = []


class State(TypedDict):
    x: int


def child(calls):
    for _ in range(calls):
        with otel_rl.tool("search"):
            pass


def node(state):
    contexts.append(contextvars.copy_context())
    process = multiprocessing.get_context("fork").Process(target=child, args=(state["x"],))
    process.start()
    process.join()
    return {"x": state["x"]}


builder = StateGraph(State)
builder.add_node("node", node)
builder.add_edge(START, "node")
builder.add_edge("node", END)
graph = builder.compile()
with otel_rl.step(1):
    for number in (1, 2, 3):
        graph.invoke({"x": number}, config={"run_id": UUID(int=number)})
otel_rl.flush(10)
for number in (1, 2, 3):
    otel_rl.reward("judge", float(number), rollout=str(UUID(int=number)))
"""
#: A group of four rollouts of one sample, which another process scores by the id of the sample.
GROUP = """
import multiprocessing


class Environment:
    def run(self, sample):
        return {"sample_id": sample["sample_id"]}


class Scorer:
    def score(self, sample):
        return sample["score"]


def score_all():
    for score in (1.0, 0.0, 1.0, 1.0):
        Scorer().score({"sample_id": "7", "score": score})


if __name__ == "__main__":
    import group

    for _ in range(4):
        group.Environment().run({"sample_id": "7"})
    process = multiprocessing.get_context("spawn").Process(target=group.score_all)
    process.start()
    process.join()
"""
#: Rollouts that return their sample, an object or a dictionary, and the environment of all.
ENVIRONMENT = """
class Environment:
    pass


class Sample:
    def __init__(self, score):
        self.score = score


SHARED = Environment()


class Agent:
    def run(self, sample):
        return sample, SHARED


class Scorer:
    def score(self, environment, sample):
        return sample["score"] if isinstance(sample, dict) else sample.score


if __name__ == "__main__":
    import environment

    for kind in (environment.Sample, lambda score: {"score": score}):
        for sample, shared in [environment.Agent().run(kind(number)) for number in (1.0, 2.0, 3.0)]:
            environment.Scorer().score(shared, sample)
"""
#: A forked child that says success, flushes and is killed.
KILLED = """
import multiprocessing
import os
import signal

import otel_rl


def succeed():
    otel_rl.reward("exact", None, success=True)
    assert otel_rl.flush(10)
    os.kill(os.getpid(), signal.SIGKILL)


with otel_rl.rollout("r"):
    process = multiprocessing.get_context("fork").Process(target=succeed)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
"""


def rows_of(folder, name, program, **variables):
    """Run a program; return its rows, and what `otel-rl trajectories` says of the rest."""
    (folder / f"{name}.py").write_text(program)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    own = {"OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store", "OTEL_RL_CHILDREN": "all", **variables}
    command = [LAUNCHER, sys.executable, f"{name}.py"]
    environ = {**kept, **own, "PYTHONPATH": str(folder)}
    subprocess.run(command, cwd=folder, env=environ, timeout=240, check=True)
    told = otel_rl(folder, "trajectories", "store")
    return [json.loads(line) for line in told.stdout.splitlines()], told.stderr


def test_agents_of_one_step_have_each_its_own_children_and_later_scores(tmp_path):
    pytest.importorskip("langgraph")
    rows, said = rows_of(tmp_path, "agents", AGENTS)
    found = [(row["scores"], row["rl.rollout.tool_calls"], row["rl.rollout.child_calls"]) for row in rows]
    assert (found, said) == ([({"judge": number}, number, number) for number in (1, 2, 3)], "")


def test_scores_of_another_process_by_an_id_that_several_rows_have_join_none(tmp_path):
    functions = {
        "OTEL_RL_ROLLOUT_FUNCTIONS": "group:Environment.run",
        "OTEL_RL_REWARD_FUNCTIONS": "group:Scorer.score",
    }
    rows, said = rows_of(tmp_path, "group", GROUP, **functions)
    assert [row["scores"] for row in rows] == [{}] * 4
    assert "several rollouts of this run, and joined none of them" in said


def test_an_object_that_rollouts_share_is_the_sample_of_none(tmp_path):
    functions = {
        "OTEL_RL_ROLLOUT_FUNCTIONS": "environment:Agent.run",
        "OTEL_RL_REWARD_FUNCTIONS": "environment:Scorer.score",
    }
    rows, _ = rows_of(tmp_path, "environment", ENVIRONMENT, **functions)
    assert [row["scores"].get("Scorer.score") for row in rows] == [1.0, 2.0, 3.0, None, None, None]


def test_a_flush_in_a_child_brings_out_what_is_no_score(tmp_path):
    [row], _ = rows_of(tmp_path, "killed", KILLED)
    assert row["rl.rollout.success"] is True
