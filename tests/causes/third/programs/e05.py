"""Rollouts of an agent with a calculator against two servers, half of them each; an update after each round."""

from __future__ import annotations

import asyncio
import json
import random
import sys

import small
from openai import APIError, AsyncOpenAI

PORTS = (23851, 23852)
ROUNDS, ROLLOUTS = 38, 12


def answer(body: dict, is_second: bool):
    from aiohttp import web

    number = int(body["user"].split("-")[1])
    if is_second and number >= 21 and random.random() < 0.3:
        error = {"error": {"message": "Rate limit reached: 60 requests a minute", "code": "rate_limit_exceeded"}}
        return web.json_response(error, status=429, headers={"retry-after-ms": "250"})
    left, right = body["messages"][0]["content"].split(" * ")
    results = [one for one in body["messages"] if one["role"] == "tool"]
    if not results:
        return small.calls("calculator", expression=f"{left}*{right}")
    if len(results) == 1 and random.random() < 0.3:
        return small.calls("calculator", expression=f"{left}*{right}+0")
    is_right = random.random() < 0.4 + 0.008 * number
    return small.says("So the answer is " + (results[-1]["content"] if is_right else "unknown"))


async def rollout(client: AsyncOpenAI, number: int) -> tuple[float, int]:
    left, right = random.randint(2, 99), random.randint(2, 99)
    messages = [{"role": "user", "content": f"{left} * {right}"}]
    tools = [small.schema("calculator", "expression")]
    for turn in range(1, 6):
        try:
            reply = await client.chat.completions.create(
                model="policy", messages=messages, tools=tools, user=f"round-{number}"
            )
        except APIError:
            return 0.0, turn
        message = reply.choices[0].message
        if not message.tool_calls:
            return float(str(left * right) in message.content), turn
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            await asyncio.sleep(0.01)
            left_, right_ = json.loads(call.function.arguments)["expression"].removesuffix("+0").split("*")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": str(int(left_) * int(right_))})
    return 0.0, 5


async def main() -> None:
    from torch.utils.tensorboard import SummaryWriter

    learner, writer = small.Learner(), SummaryWriter("tb")
    clients = [
        AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=6, timeout=20) for port in PORTS
    ]
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
    which = int(sys.argv[2])
    small.serve(PORTS[which], lambda body: answer(body, which == 1), 6e-3)
else:
    servers = [small.start(__file__, str(which), port=PORTS[which]) for which in (0, 1)]
    try:
        asyncio.run(main())
    finally:
        for server in servers:
            server.kill()
