"""Rollouts of an agent that asks a database through MCP over stdio; the model is behind a server on loopback."""

from __future__ import annotations

import asyncio
import json
import random
import sys

import small
from openai import AsyncOpenAI

PORT = 23891
ROUNDS, ROLLOUTS, CONNECTIONS = 44, 8, 200


def tools() -> None:
    from mcp.server import MCPServer

    server = MCPServer("orders", log_level="CRITICAL")
    opened: list[object] = []

    def connect() -> object:
        if len(opened) >= CONNECTIONS:
            raise RuntimeError("QueuePool limit of size 200 overflow 0 reached, connection timed out")
        opened.append(object())
        return opened[-1]

    @server.tool()
    async def query_orders(customer: str) -> str:
        """Orders of a customer."""
        connect()
        await asyncio.sleep(0.02)
        return f"{customer}: " + ", ".join(str(random.randint(1000, 9999)) for _ in range(random.randint(1, 6)))

    @server.tool()
    async def today(zone: str) -> str:
        """Date of today in a zone."""
        await asyncio.sleep(0.005)
        return f"2031-03-{random.randint(10, 28)} {zone}"

    server.run("stdio")


def answer(body: dict) -> dict:
    number = int(body["user"].split("-")[1])
    results = [one["content"] for one in body["messages"] if one["role"] == "tool"]
    if not results:
        return small.calls("query_orders", customer=body["messages"][0]["content"])
    if len(results) == 1 and random.random() < 0.4:
        return small.calls("today", zone="UTC")
    is_right = random.random() < 0.5 + 0.008 * number and "," in results[0] and "QueuePool" not in results[0]
    return small.says("they ordered " + (results[0] if is_right else "nothing that I could find"))


async def rollout(client: AsyncOpenAI, session, number: int) -> tuple[float, int]:
    customer = f"customer {random.randint(1, 90)}"
    messages = [{"role": "user", "content": customer}]
    offered = [small.schema("query_orders", "customer"), small.schema("today", "zone")]
    for turn in range(1, 6):
        reply = await client.chat.completions.create(
            model="policy", messages=messages, tools=offered, user=f"round-{number}"
        )
        message = reply.choices[0].message
        if not message.tool_calls:
            return float(customer in message.content), turn
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = await session.call_tool(call.function.name, json.loads(call.function.arguments))
            text = " ".join(getattr(one, "text", "") for one in result.content)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return 0.0, 5


async def main() -> None:
    from mcp import ClientSession, StdioServerParameters, stdio_client
    from torch.utils.tensorboard import SummaryWriter

    learner, writer = small.Learner(), SummaryWriter("tb")
    client = AsyncOpenAI(base_url=f"http://127.0.0.1:{PORT}/v1", api_key="none")
    parameters = StdioServerParameters(command=sys.executable, args=[__file__, "tools"])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        for number in range(1, ROUNDS + 1):
            found = await asyncio.gather(*(rollout(client, session, number) for _ in range(ROLLOUTS)))
            rewards, turns = [list(one) for one in zip(*found, strict=True)]
            features = [[turn / 5] + [random.random() for _ in range(7)] for _, turn in found]
            loss, norm = learner.update(features, rewards)
            writer.add_scalar("train/loss", loss, number)
            writer.add_scalar("train/grad_norm", norm, number)
            writer.add_scalar("rollout/reward", sum(rewards) / ROLLOUTS, number)
            writer.add_scalar("rollout/turns", sum(turns) / ROLLOUTS, number)
    writer.close()


if sys.argv[1:2] == ["serve"]:
    small.serve(PORT, answer, 4e-3)
elif sys.argv[1:2] == ["tools"]:
    tools()
else:
    policy = small.start(__file__, port=PORT)
    try:
        asyncio.run(main())
    finally:
        policy.kill()
