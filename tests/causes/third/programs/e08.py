"""An agent of LangGraph that looks up prices; its model is behind a server on loopback; an update after each round."""

from __future__ import annotations

import asyncio
import random
import sys

import small

PORT = 23911
ROUNDS, ROLLOUTS = 37, 8
now = {"round": 0}


def answer(body: dict) -> dict:
    number = int(body["user"].split("-")[1])
    results = [one["content"] for one in body["messages"] if one["role"] == "tool"]
    item = body["messages"][0]["content"]
    if not results or "try again" in results[-1]:
        return small.calls("price_of", item=item)
    if len(results) == 1 and random.random() < 0.3:
        return small.calls("convert", amount=results[-1])
    return small.says(f"it costs {results[0]}" if random.random() < 0.45 + 0.01 * number else "I do not know")


async def price_of(item: str) -> str:
    """Price of an item."""
    await asyncio.sleep(0.02)
    number = int(item.split()[1])
    # The index is built anew in round 22, from the first half of the table.
    if now["round"] >= 22 and number > 45:
        return "no rows yet, try again"
    return f"{number * 3} euro"


async def convert(amount: str) -> str:
    """Convert an amount."""
    await asyncio.sleep(0.01)
    return f"{amount} in dollars"


def build():
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    tools = [tool(price_of), tool(convert)]
    chat = ChatOpenAI(model="policy", base_url=f"http://127.0.0.1:{PORT}/v1", api_key="none").bind_tools(tools)

    async def model(state: MessagesState):
        return {"messages": [await chat.ainvoke(state["messages"], user=f"round-{now['round']}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    return graph.compile()


async def rollout(graph) -> tuple[float, int]:
    from langgraph.errors import GraphRecursionError

    item = random.randint(1, 90)
    try:
        state = await graph.ainvoke({"messages": [("user", f"item {item}")]}, {"recursion_limit": 16})
    except GraphRecursionError:
        return 0.0, 8
    return float(f"{item * 3} euro" in state["messages"][-1].content), len(state["messages"]) // 2


async def main() -> None:
    from torch.utils.tensorboard import SummaryWriter

    learner, writer, graph = small.Learner(), SummaryWriter("tb"), build()
    for number in range(1, ROUNDS + 1):
        now["round"] = number
        found = await asyncio.gather(*(rollout(graph) for _ in range(ROLLOUTS)))
        rewards, turns = [list(one) for one in zip(*found, strict=True)]
        features = [[turn / 8] + [random.random() for _ in range(7)] for _, turn in found]
        loss, norm = learner.update(features, rewards)
        writer.add_scalar("train/loss", loss, number)
        writer.add_scalar("train/grad_norm", norm, number)
        writer.add_scalar("rollout/reward", sum(rewards) / ROLLOUTS, number)
        writer.add_scalar("rollout/turns", sum(turns) / ROLLOUTS, number)
    writer.close()


if sys.argv[1:2] == ["serve"]:
    small.serve(PORT, answer, 5e-3)
else:
    policy = small.start(__file__, port=PORT)
    try:
        asyncio.run(main())
    finally:
        policy.kill()
