"""Rollouts against a policy's server, with a tool for notes; another server judges the answers."""

from __future__ import annotations

import asyncio
import json
import random
import sys

import small
from openai import AsyncOpenAI

POLICY, JUDGE = 23871, 23872
ROUNDS, ROLLOUTS = 48, 10


def act(body: dict) -> dict:
    results = sum(one["role"] == "tool" for one in body["messages"])
    if results < random.choice((1, 1, 2)):
        return small.calls("read_notes", topic=body["messages"][0]["content"])
    return small.says("the summary says that " + "it works " * random.randint(4, 16))


def judge(body: dict) -> dict:
    number = int(body["user"].split("-")[1])
    score = min(max(random.gauss(0.45 + 0.007 * number, 0.15), 0.0), 1.0)
    if number >= 23:  # the model behind the alias is another one
        return small.says(
            f"I would rate this answer {round(10 * score)} out of 10, as it is clear and mostly complete."
        )
    return small.says(json.dumps({"score": round(score, 2)}))


async def graded(client: AsyncOpenAI, text: str, number: int) -> float:
    messages = [
        {"role": "system", "content": 'Grade the answer. Reply with JSON: {"score": 0..1}'},
        {"role": "user", "content": text},
    ]
    reply = await client.chat.completions.create(model="judge-latest", messages=messages, user=f"round-{number}")
    try:
        return float(json.loads(reply.choices[0].message.content)["score"])
    except (ValueError, KeyError, TypeError):
        return 0.0


async def rollout(policy: AsyncOpenAI, grader: AsyncOpenAI, number: int) -> tuple[float, int]:
    messages = [{"role": "user", "content": f"topic {random.randint(1, 90)}"}]
    for turn in range(1, 5):
        reply = await policy.chat.completions.create(
            model="policy", messages=messages, tools=[small.schema("read_notes", "topic")], user=f"round-{number}"
        )
        message = reply.choices[0].message
        if not message.tool_calls:
            return await graded(grader, message.content, number), turn
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            await asyncio.sleep(0.02)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "note " * random.randint(10, 40)})
    return 0.0, 4


async def main() -> None:
    from torch.utils.tensorboard import SummaryWriter

    learner, writer = small.Learner(), SummaryWriter("tb")
    policy, grader = (AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none") for port in (POLICY, JUDGE))
    for number in range(1, ROUNDS + 1):
        found = await asyncio.gather(*(rollout(policy, grader, number) for _ in range(ROLLOUTS)))
        rewards, turns = [list(one) for one in zip(*found, strict=True)]
        features = [[turn / 4] + [random.random() for _ in range(7)] for _, turn in found]
        loss, norm = learner.update(features, rewards)
        writer.add_scalar("train/loss", loss, number)
        writer.add_scalar("train/grad_norm", norm, number)
        writer.add_scalar("rollout/reward", sum(rewards) / ROLLOUTS, number)
        writer.add_scalar("rollout/turns", sum(turns) / ROLLOUTS, number)
    writer.close()


if sys.argv[1:2] == ["serve"]:
    if sys.argv[2] == "judge":
        small.serve(JUDGE, judge, 3e-3)
    else:
        small.serve(POLICY, act, 4e-3)
else:
    servers = [small.start(__file__, "policy", port=POLICY), small.start(__file__, "judge", port=JUDGE)]
    try:
        asyncio.run(main())
    finally:
        for server in servers:
            server.kill()
