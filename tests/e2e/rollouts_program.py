"""A rollout worker that uses the producer API, streams a model's answer and follows a model that makes up a tool.

What the two examples do not show: rollouts marked by the user, a failed one, a streamed call, a tool that is not there.
"""

from __future__ import annotations

import openai
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from support.fake_openai import FakeOpenAI

import otel_rl


def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


def graph_with_tools():
    """A graph that does what the last message asks for."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([add]))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    return graph.compile()


def call(name: str) -> dict:
    """A model's message that calls tool ``name``."""
    tool_call = {"name": name, "args": {"first": 1, "second": 2}, "id": "call-1"}
    return {"messages": [AIMessage("", tool_calls=[tool_call])]}


def main() -> None:
    """Three rollouts: one in order, one that fails, one with a tool that does not exist."""
    graph = graph_with_tools()
    with FakeOpenAI() as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="none")
        with otel_rl.rollout("in-order", keep=True):
            question = [{"role": "user", "content": "hello"}]
            for _ in client.chat.completions.create(model="tiny", messages=question, stream=True):
                pass
            otel_rl.reward("exact_match", 1.0)
    with otel_rl.rollout("failed", keep=True) as rollout:
        rollout.fail("timeout")
    with otel_rl.rollout("made-up-tool", keep=True):
        graph.invoke(call("teleport"))


if __name__ == "__main__":
    main()
