"""Rollouts of an agent that searches, against two servers; a call now and then is made again."""

from __future__ import annotations

import asyncio
import random
import sys

import small
from openai import APIError, AsyncOpenAI

PORTS = (23861, 23862)
ROUNDS, ROLLOUTS = 45, 12


def answer(body: dict):
    from aiohttp import web

    number = int(body["user"].split("-")[1])
    if random.random() < 0.01:
        return web.json_response({"error": {"message": "busy"}}, status=503, headers={"retry-after-ms": "150"})
    results = sum(one["role"] == "tool" for one in body["messages"])
    if results < random.choice((1, 1, 2, 2, 3)):
        return small.calls("search", query=body["messages"][0]["content"])
    words = random.randint(8, 14 + number // 3)
    return small.says("well " * words + ("yes" if random.random() < 0.35 + 0.009 * number else "no"))


async def search(query: str) -> str:
    """Most are found soon, some take longer."""
    await asyncio.sleep(min(random.lognormvariate(-3.9, 0.8), 0.3))
    return f"{query}: " + "a passage " * random.randint(3, 20)


async def rollout(client: AsyncOpenAI, number: int) -> tuple[float, int]:
    messages = [{"role": "user", "content": f"question {random.randint(1, 500)}"}]
    for turn in range(1, 6):
        try:
            reply = await client.chat.completions.create(
                model="policy", messages=messages, tools=[small.schema("search", "query")], user=f"round-{number}"
            )
        except APIError:
            return 0.0, turn
        message = reply.choices[0].message
        if not message.tool_calls:
            return float(message.content.endswith("yes")), turn
        messages.append(message.model_dump(exclude_none=True))
        call = message.tool_calls[0]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": await search("question")})
    return 0.0, 5


async def main() -> None:
    from torch.utils.tensorboard import SummaryWriter

    learner, writer = small.Learner(), SummaryWriter("tb")
    clients = [AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=4) for port in PORTS]
    for number in range(1, ROUNDS + 1):
        found = await asyncio.gather(*(rollout(clients[index % 2], number) for index in range(ROLLOUTS)))
        rewards, turns = [list(one) for one in zip(*found, strict=True)]
        features = [[turn / 5] + [random.random() for _ in range(7)] for _, turn in found]
        loss, norm = learner.update(features, rewards)
        writer.add_scalar("train/loss", loss, number)
        writer.add_scalar("train/grad_norm", norm, number)
        writer.add_scalar("rollout/reward", sum(rewards) / ROLLOUTS, number)
        writer.add_scalar("rollout/turns", sum(turns) / ROLLOUTS, number)
    writer.close()


if sys.argv[1:2] == ["serve"]:
    small.serve(PORTS[int(sys.argv[2])], answer, 4e-3)
else:
    servers = [small.start(__file__, str(which), port=PORTS[which]) for which in (0, 1)]
    try:
        asyncio.run(main())
    finally:
        for server in servers:
            server.kill()
