"""Rollouts of an agent with files through MCP over stdio; some files are not there, as the tasks want it."""

from __future__ import annotations

import asyncio
import json
import random
import sys

import small
from openai import AsyncOpenAI

PORT = 23901
ROUNDS, ROLLOUTS = 38, 8


def tools() -> None:
    from mcp.server import MCPServer

    server = MCPServer("files", log_level="CRITICAL")

    @server.tool()
    async def read_file(path: str) -> str:
        """Text of a file."""
        await asyncio.sleep(min(random.lognormvariate(-4.0, 0.7), 0.3))
        if random.random() < 0.04:
            raise FileNotFoundError(path)
        return "line of text\n" * random.randint(2, 40)

    @server.tool()
    async def list_folder(path: str) -> str:
        """Names in a folder."""
        await asyncio.sleep(0.005)
        return f"{path}: " + " ".join(f"{letter}.txt" for letter in random.sample("abcdefgh", 4))

    server.run("stdio")


def answer(body: dict) -> dict:
    number = int(body["user"].split("-")[1])
    results = sum(one["role"] == "tool" for one in body["messages"])
    if results == 0:
        return small.calls("list_folder", path="/data")
    # At first it reads one file, later two.
    if results < 2 + (random.random() < 0.1 + 0.015 * number):
        return small.calls("read_file", path=f"/data/{random.choice('abcdefgh')}.txt")
    return small.says("the files say " + ("this" if random.random() < 0.3 + 0.012 * number else "that"))


async def rollout(client: AsyncOpenAI, session, number: int) -> tuple[float, int]:
    messages = [{"role": "user", "content": f"what is said of {random.randint(1, 90)}?"}]
    offered = [small.schema("read_file", "path"), small.schema("list_folder", "path")]
    for turn in range(1, 7):
        reply = await client.chat.completions.create(
            model="policy", messages=messages, tools=offered, user=f"round-{number}"
        )
        message = reply.choices[0].message
        if not message.tool_calls:
            return float(message.content.endswith("this")), turn
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = await session.call_tool(call.function.name, json.loads(call.function.arguments))
            text = " ".join(getattr(one, "text", "") for one in result.content)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return 0.0, 6


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
            features = [[turn / 6] + [random.random() for _ in range(7)] for _, turn in found]
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
