"""Policy gradient with answers from two inference servers; the policy learns to think for longer."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time

STEPS = 60
PROMPTS = 8
SAMPLES = 2
VOCABULARY = 512


def serve(name: str) -> None:
    from aiohttp import web

    rng = random.Random(name)
    policy = {"step": 0}

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        if rng.random() < 0.02:
            error = {"error": {"message": "too many requests", "type": "rate_limit_error"}}
            return web.json_response(error, status=429, headers={"retry-after-ms": "150"})
        count = max(8, int(rng.lognormvariate(0, 0.25) * (40 + 1.8 * policy["step"])))
        count = min(count, body["max_tokens"])
        await asyncio.sleep(0.03 + 0.0011 * count)
        text = " ".join(f"w{rng.randrange(VOCABULARY)}" for _ in range(count))
        finish = "length" if count == body["max_tokens"] else "stop"
        return web.json_response(
            {
                "id": f"cmpl-{rng.getrandbits(40):x}",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": body["model"],
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
                "usage": {"prompt_tokens": 24, "completion_tokens": count, "total_tokens": 24 + count},
            }
        )

    async def update(request: web.Request) -> web.Response:
        policy.update(await request.json())
        return web.json_response({"success": True})

    async def begin() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", complete)
        app.router.add_post("/update_weights", update)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(site._server.sockets[0].getsockname()[1], flush=True)
        while os.getppid() != 1:
            await asyncio.sleep(1)

    asyncio.run(begin())


def start(name: str) -> tuple[subprocess.Popen, str]:
    process = subprocess.Popen(
        [sys.executable, __file__, "serve", name],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"]},
    )
    port = int(process.stdout.readline())
    print(f"{name}=127.0.0.1:{port}", flush=True)
    return process, f"http://127.0.0.1:{port}"


async def train(addresses: list[str]) -> None:
    import httpx
    import torch
    from openai import AsyncOpenAI
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(11)
    rng = random.Random(11)
    embedding = nn.Embedding(VOCABULARY, 96)
    body = nn.GRU(96, 128, batch_first=True)
    head = nn.Linear(128, VOCABULARY)
    parameters = [*embedding.parameters(), *body.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    clients = [AsyncOpenAI(base_url=f"{one}/v1", api_key="none", max_retries=4) for one in addresses]

    async def rollout(number: int, prompt: str) -> tuple[list[int], float]:
        client = clients[number % len(clients)]
        answer = await client.chat.completions.create(
            model="policy",
            messages=[{"role": "system", "content": "Think first."}, {"role": "user", "content": prompt}],
            max_tokens=320,
            temperature=1.0,
        )
        tokens = [int(word[1:]) for word in answer.choices[0].message.content.split()]
        even = sum(token % 2 == 0 for token in tokens) / len(tokens)
        thinking = min(len(tokens), 200) / 200
        return tokens, even + thinking + rng.gauss(0, 0.2)

    async with httpx.AsyncClient() as control:
        for step in range(STEPS):
            begin = time.monotonic()
            prompts = [f"task {rng.randrange(10_000)}" for _ in range(PROMPTS) for _ in range(SAMPLES)]
            answers = await asyncio.gather(*(rollout(number, one) for number, one in enumerate(prompts)))
            sampled = time.monotonic() - begin
            rewards = torch.tensor([reward for _, reward in answers])
            advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
            rows = nn.utils.rnn.pad_sequence(
                [torch.tensor(tokens) for tokens, _ in answers], batch_first=True, padding_value=0
            )
            mask = nn.utils.rnn.pad_sequence([torch.ones(len(tokens) - 1) for tokens, _ in answers], batch_first=True)
            hidden, _ = body(embedding(rows[:, :-1]))
            logps = torch.log_softmax(head(hidden), -1).gather(-1, rows[:, 1:, None])[..., 0]
            loss = -(advantages * (logps * mask).sum(1) / mask.sum(1)).mean()
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            for address in addresses:
                (await control.post(f"{address}/update_weights", json={"step": step + 1})).raise_for_status()
            lengths = [len(tokens) for tokens, _ in answers]
            print(
                json.dumps(
                    {
                        "step": step,
                        "loss": round(loss.item(), 5),
                        "grad_norm": round(norm.item(), 4),
                        "reward/mean": round(rewards.mean().item(), 4),
                        "reward/std": round(rewards.std().item(), 4),
                        "answer/mean_tokens": sum(lengths) / len(lengths),
                        "answer/max_tokens": max(lengths),
                        "time/rollout": round(sampled, 3),
                        "time/step": round(time.monotonic() - begin, 3),
                    }
                ),
                flush=True,
            )
    for client in clients:
        await client.close()


def main() -> None:
    servers = [start(name) for name in ("first", "second")]
    try:
        asyncio.run(train([address for _, address in servers]))
    finally:
        for process, _ in servers:
            process.terminate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2])
    else:
        main()
