"""GRPO-like training; two inference servers sample with the weights that the trainer publishes while it trains."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

STEPS = 78
PROMPTS = 8
GROUP = 4
LENGTH = 24
VOCABULARY = 64


def serve(name: str, disk: str) -> None:
    """Inference server; keeps each version of the weights on its disk of so many bytes."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    import numpy as np

    weights = {"table": np.zeros((VOCABULARY, VOCABULARY), dtype=np.float32), "version": -1}
    used = 0

    def update(body: dict) -> dict:
        nonlocal used
        path = Path(body["path"])
        if used + path.stat().st_size > int(disk):
            return {"success": False, "message": "OSError: [Errno 28] No space left on device"}
        used += path.stat().st_size
        weights.update(table=np.load(path), version=body["version"])
        return {"success": True, "message": "ok"}

    def complete(body: dict) -> dict:
        table = weights["table"]
        rng = np.random.default_rng(body["seed"])
        time.sleep(0.06)
        choices = []
        for number in range(body["n"]):
            token, words, content = int(body["messages"][-1]["content"]), [], []
            for _ in range(LENGTH):
                logits = table[token] / body["temperature"]
                logps = logits - np.logaddexp.reduce(logits)
                token = int(rng.choice(VOCABULARY, p=np.exp(logps) / np.exp(logps).sum()))
                words.append(str(token))
                content.append({"token": words[-1], "logprob": float(logps[token]), "bytes": None, "top_logprobs": []})
            choices.append(
                {
                    "index": number,
                    "finish_reason": "length",
                    "message": {"role": "assistant", "content": " ".join(words)},
                    "logprobs": {"content": content, "refusal": None},
                }
            )
        count = body["n"] * LENGTH
        return {
            "id": f"chat-{body['seed']}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": choices,
            "usage": {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1},
        }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = json.dumps(update(body) if self.path == "/update_weights" else complete(body)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


async def train(addresses: dict[str, str]) -> None:
    import httpx
    import numpy as np
    import torch
    from openai import AsyncOpenAI
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(3)
    policy = nn.Sequential(
        nn.Embedding(VOCABULARY, 128),
        nn.Linear(128, 512),
        nn.GELU(),
        nn.Linear(512, 512),
        nn.GELU(),
        nn.Linear(512, VOCABULARY),
    )
    optimizer = torch.optim.AdamW(policy.parameters(), lr=6e-4)
    clients = {name: AsyncOpenAI(base_url=f"{one}/v1", api_key="none") for name, one in addresses.items()}
    names = list(clients)
    Path("weights").mkdir(exist_ok=True)

    def export(version: int) -> str:
        path = Path(f"weights/{version:04}.npy").resolve()
        with torch.no_grad():
            np.save(path, policy(torch.arange(VOCABULARY)).numpy())
        return str(path)

    async with httpx.AsyncClient() as control:

        async def publish(version: int, path: str) -> None:
            for address in addresses.values():
                answer = await control.post(f"{address}/update_weights", json={"version": version, "path": path})
                answer.raise_for_status()

        async def rollout(name: str, seed: int) -> tuple[str, torch.Tensor, torch.Tensor]:
            first = seed % VOCABULARY
            answer = await clients[name].chat.completions.create(
                model="policy",
                messages=[{"role": "user", "content": str(first)}],
                n=GROUP,
                seed=seed,
                temperature=1.0,
                logprobs=True,
            )
            rows = [[first, *map(int, one.message.content.split())] for one in answer.choices]
            logps = [[token.logprob for token in one.logprobs.content] for one in answer.choices]
            return name, torch.tensor(rows), torch.tensor(logps)

        await publish(0, export(0))
        for step in range(1, STEPS + 1):
            begin = time.monotonic()
            found = await asyncio.gather(
                *(rollout(names[number % 2], step * PROMPTS + number) for number in range(PROMPTS))
            )
            sampled = time.monotonic() - begin
            path = export(step)
            publishing = asyncio.create_task(publish(step, path))
            losses, rewards, gaps = [], [], {name: [] for name in names}
            for name, rows, sampled_logps in found:
                logps = torch.log_softmax(policy(rows[:, :-1]), -1).gather(-1, rows[:, 1:, None])[..., 0]
                reward = (rows[:, 1:] == (rows[:, :-1] * 3 + 1) % VOCABULARY).float().mean(1)
                reward = reward + ((rows[:, 1:] - rows[:, :-1]) % VOCABULARY < 16).float().mean(1)
                advantage = (reward - reward.mean()) / (reward.std() + 1e-4)
                ratio = (logps - sampled_logps).exp().clamp(max=2.0)
                losses.append(-(ratio * advantage[:, None]).mean())
                rewards.append(reward)
                gaps[name].append((logps.detach() - sampled_logps).abs().mean().item())
            loss = torch.stack(losses).mean()
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            await publishing
            every = torch.cat(rewards)
            print(
                json.dumps(
                    {
                        "step": step,
                        "loss": round(loss.item(), 5),
                        "grad_norm": round(norm.item(), 4),
                        "reward/mean": round(every.mean().item(), 4),
                        "reward/std": round(every.std().item(), 4),
                        **{f"logprob_gap/{name}": round(sum(one) / len(one), 5) for name, one in gaps.items()},
                        "time/rollout": round(sampled, 3),
                        "time/step": round(time.monotonic() - begin, 3),
                    }
                ),
                flush=True,
            )
    for client in clients.values():
        await client.close()


def main() -> None:
    servers, addresses = [], {}
    for name, disk in {"first": 64_000_000, "second": 465_000}.items():
        servers.append(
            subprocess.Popen(
                [sys.executable, __file__, "serve", name, str(disk)],
                stdout=subprocess.PIPE,
                text=True,
                env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"},
            )
        )
        addresses[name] = f"http://127.0.0.1:{int(servers[-1].stdout.readline())}"
        print(f"{name}={addresses[name].removeprefix('http://')}", flush=True)
    try:
        asyncio.run(train(addresses))
    finally:
        for server in servers:
            server.terminate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    else:
        main()
