"""GRPO with answers from an inference server (FastAPI); evaluation now and then on the same server."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

STEPS = 84
PROMPTS = 6
GROUP = 8
LENGTH = 20
VOCABULARY = 48
EVALUATE_EVERY = 32


def serve() -> None:
    import socket

    import numpy as np
    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()
    weights = {"table": np.zeros((VOCABULARY, VOCABULARY), dtype=np.float32)}
    rng = np.random.default_rng(9)

    @app.post("/weights")
    def load(body: dict) -> dict:
        table = np.frombuffer(base64.b64decode(body["table"]), dtype=np.float32)
        weights["table"] = table.reshape(VOCABULARY, VOCABULARY)
        return {"success": True}

    @app.post("/v1/chat/completions")
    def complete(body: dict) -> dict:
        count, temperature = body.get("n", 1), body.get("temperature", 1.0)
        tokens = np.full(count, int(body["messages"][-1]["content"]))
        columns = []
        time.sleep(0.08)
        for _ in range(LENGTH):
            logits = weights["table"][tokens]
            if temperature > 0:
                logits = logits / temperature + rng.gumbel(size=logits.shape)
            tokens = logits.argmax(-1)
            columns.append(tokens)
        rows = np.stack(columns, 1).tolist()
        return {
            "id": "chat",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [
                {
                    "index": number,
                    "finish_reason": "length",
                    "message": {"role": "assistant", "content": " ".join(map(str, row))},
                }
                for number, row in enumerate(rows)
            ],
            "usage": {
                "prompt_tokens": 4,
                "completion_tokens": count * LENGTH,
                "total_tokens": 4 + count * LENGTH,
            },
        }

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


class Sampler:
    def __init__(self, address: str):
        from openai import OpenAI

        self.client = OpenAI(base_url=f"{address}/v1", api_key="none")
        self.parameters = {"temperature": 1.0, "n": GROUP}
        self.threads = ThreadPoolExecutor(PROMPTS)

    def one(self, prompt: int) -> list[list[int]]:
        answer = self.client.chat.completions.create(
            model="policy", messages=[{"role": "user", "content": str(prompt)}], **self.parameters
        )
        return [[prompt, *map(int, choice.message.content.split())] for choice in answer.choices]

    def __call__(self, prompts: list[int]) -> list[list[list[int]]]:
        return list(self.threads.map(self.one, prompts))


def train(address: str) -> None:
    import httpx
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(10)
    policy = nn.Sequential(nn.Embedding(VOCABULARY, 128), nn.Linear(128, 768), nn.GELU(), nn.Linear(768, VOCABULARY))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-4)
    sampler = Sampler(address)
    control = httpx.Client(base_url=address)

    def publish() -> None:
        with torch.no_grad():
            table = policy(torch.arange(VOCABULARY)).numpy().tobytes()
        control.post("/weights", json={"table": base64.b64encode(table).decode()}).raise_for_status()

    def reward_of(rows: torch.Tensor) -> torch.Tensor:
        right = rows[..., 1:] == (rows[..., :-1] * 5 + 3) % VOCABULARY
        near = (rows[..., 1:] - rows[..., :-1]) % VOCABULARY < 12
        return right.float().mean(-1) + near.float().mean(-1)

    def evaluate() -> float:
        parameters = sampler.parameters
        parameters["temperature"], parameters["n"] = 0.0, 1
        found = torch.tensor(sampler(list(range(0, VOCABULARY, 4))))
        parameters["n"] = GROUP
        return reward_of(found).mean().item()

    publish()
    for step in range(1, STEPS + 1):
        begin = time.monotonic()
        prompts = torch.randint(VOCABULARY, (PROMPTS,)).tolist()
        rows = torch.tensor(sampler(prompts))
        rewards = reward_of(rows)
        advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
        logps = torch.log_softmax(policy(rows[..., :-1]), -1).gather(-1, rows[..., 1:, None])[..., 0]
        loss = -(logps.mean(-1) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        publish()
        line = {
            "step": step,
            "loss": round(loss.item(), 5),
            "grad_norm": round(norm.item(), 5),
            "reward/mean": round(rewards.mean().item(), 4),
            "reward/group_std": round(rewards.std(1).mean().item(), 4),
            "answers/distinct": sum(len({tuple(row) for row in group}) for group in rows.tolist()) / PROMPTS,
            "seconds": round(time.monotonic() - begin, 3),
        }
        if step % EVALUATE_EVERY == 0:
            line["eval/reward"] = round(evaluate(), 4)
        print(json.dumps(line), flush=True)


def main() -> None:
    server = subprocess.Popen(
        [sys.executable, __file__, "serve"],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"},
    )
    try:
        train(f"http://127.0.0.1:{int(server.stdout.readline())}")
    finally:
        server.terminate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve()
    else:
        main()
