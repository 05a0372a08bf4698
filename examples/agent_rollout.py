"""Rollouts of a small agent: think (a chat model), act (a tool), judge (a reward).

    python examples/agent_rollout.py [--rollouts 3] [--fail-tool-in K]

The model is whatever answers under OPENAI_BASE_URL (model name in OPENAI_MODEL). Without that variable the program
serves a tiny random model itself with `transformers serve` on a free loopback port, and stops it at the end. A random
model never asks for a tool, so the graph calls it on its own.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from model_server import served

if TYPE_CHECKING:
    from collections.abc import Iterator


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    numbers: tuple[int, int]
    tool_fails: bool
    result: int | None
    reward: float


@tool
def add(a: int, b: int, fail: bool = False) -> int:
    """Add two numbers."""
    if fail:
        raise RuntimeError("the calculator is out of order")
    return a + b


def build_graph(model: ChatOpenAI):
    def think(state: State):
        return {"messages": [model.invoke(state["messages"])]}

    def act(state: State):
        a, b = state["numbers"]
        try:
            result = add.invoke({"a": a, "b": b, "fail": state["tool_fails"]})
        except RuntimeError as error:
            return {"result": None, "messages": [ToolMessage(str(error), tool_call_id="add", status="error")]}
        return {"result": result, "messages": [ToolMessage(str(result), tool_call_id="add")]}

    def judge(state: State):
        right = sum(state["numbers"])
        said = str(state["messages"][1].content)
        return {"reward": (1.0 if state["result"] == right else 0.0) + (0.5 if str(right) in said else 0.0)}

    graph = StateGraph(State)
    graph.add_node("think", think)
    graph.add_node("act", act)
    graph.add_node("judge", judge)
    graph.add_edge(START, "think")
    graph.add_edge("think", "act")
    graph.add_edge("act", "judge")
    graph.add_edge("judge", END)
    return graph.compile(name="calculator_agent")


@contextmanager
def served_tiny_model() -> Iterator[tuple[str, str]]:
    """Return base URL and model name of a tiny random model, served by a process of ours."""
    from tiny_model import build  # noqa: PLC0415 - needs torch, which a rollout against another server does not

    with tempfile.TemporaryDirectory() as folder, served(build(Path(folder) / "tiny")) as address:
        yield f"{address}/v1", "tiny"


def run(base_url: str, model_name: str, rollouts: int, fail_tool_in: int | None) -> None:
    model = ChatOpenAI(model=model_name, base_url=base_url, api_key="none", max_tokens=16, temperature=1.0)
    graph = build_graph(model)
    numbers = random.Random(0)  # noqa: S311 - a task, no secret
    for rollout in range(rollouts):
        a, b = numbers.randrange(100), numbers.randrange(100)
        question = HumanMessage(f"What is {a} + {b}? Say the number and nothing else.")
        state = graph.invoke(
            {"messages": [question], "numbers": (a, b), "tool_fails": rollout == fail_tool_in, "reward": 0.0},
            {"configurable": {"thread_id": f"rollout-{rollout}"}},
        )
        print(f"rollout {rollout}: {a} + {b}, tool {state['result']}, reward {state['reward']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=3, help="how many (default 3)")
    parser.add_argument("--fail-tool-in", type=int, metavar="K", help="let the tool fail in rollout K, from 0")
    options = parser.parse_args()
    base_url = os.environ.get("OPENAI_BASE_URL")
    if base_url:
        run(base_url, os.environ.get("OPENAI_MODEL", "tiny"), options.rollouts, options.fail_tool_in)
        return
    with served_tiny_model() as (url, model):
        run(url, model, options.rollouts, options.fail_tool_in)


if __name__ == "__main__":
    main()
