"""Rollouts against a policy's server, with a shell as a tool; a second server judges; both begin cold."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time

import small
from openai import AsyncOpenAI

POLICY, JUDGE = 23881, 23882
ROUNDS, ROLLOUTS = 40, 10


def act(body: dict) -> dict:
    number = int(body["user"].split("-")[1])
    if number == 1:
        time.sleep(0.12)  # graphs are captured
    results = sum(one["role"] == "tool" for one in body["messages"])
    # It learns to look twice before it answers.
    if results < (2 if random.random() < 0.2 + 0.012 * number else 1):
        return small.calls("shell", command=f"grep -n {random.choice('abc')} notes.txt")
    return small.says("I think " + "so " * min(int(random.lognormvariate(2.6, 0.6)), 60) + "done")


def judge(body: dict) -> dict:
    number = int(body["user"].split("-")[1])
    score = min(max(random.gauss(0.4 + 0.008 * number, 0.2), 0.0), 1.0)
    return small.says(json.dumps({"score": round(score, 2), "why": "clear"}))


async def shell(command: str) -> str:
    """Some commands find nothing, which is an answer too."""
    await asyncio.sleep(random.uniform(0.01, 0.05))
    return "exit code 1" if random.random() < 0.08 else f"{command}\n" + "line\n" * random.randint(1, 30)


async def rollout(policy: AsyncOpenAI, grader: AsyncOpenAI, number: int) -> tuple[float, int]:
    messages = [{"role": "user", "content": f"task {random.randint(1, 90)}"}]
    for turn in range(1, 5):
        reply = await policy.chat.completions.create(
            model="policy", messages=messages, tools=[small.schema("shell", "command")], user=f"round-{number}"
        )
        message = reply.choices[0].message
        if not message.tool_calls:
            asked = [{"role": "user", "content": "Grade from 0 to 1 as JSON: " + message.content}]
            graded = await grader.chat.completions.create(model="judge", messages=asked, user=f"round-{number}")
            return json.loads(graded.choices[0].message.content)["score"], turn
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = await shell(json.loads(call.function.arguments)["command"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
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
        small.serve(JUDGE, judge, 4e-3)
    else:
        small.serve(POLICY, act, 4e-3)
else:
    servers = [small.start(__file__, "policy", port=POLICY), small.start(__file__, "judge", port=JUDGE)]
    try:
        asyncio.run(main())
    finally:
        for server in servers:
            server.kill()
