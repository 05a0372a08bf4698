"""Coding rollouts: answers of a policy behind an OpenAI server are tested in a sandbox that an MCP server offers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from typing import Any

STEPS = 72
ROLLOUTS = 6


def sandbox(port: str) -> None:
    from mcp.server import MCPServer

    server = MCPServer("sandbox", log_level="ERROR")
    rng = random.Random(5)
    runs = 0
    pool = 168

    @server.tool()
    async def run_tests(program: str) -> str:
        """Run the tests on a program, in a container of the pool."""
        nonlocal runs
        runs += 1
        if runs > pool and (runs - pool) % 23 == 1:
            await asyncio.sleep(1.7)
        await asyncio.sleep(0.05 + 0.03 * rng.random())
        return f"{sum(rng.random() < min(0.9, 0.2 + len(program) / 400) for _ in range(10))} of 10 passed"

    @server.tool()
    async def lint(program: str) -> str:
        """Count the findings of the linter."""
        await asyncio.sleep(0.01 + 0.01 * rng.random())
        return f"{program.count('TODO')} findings"

    server.run("streamable-http", host="127.0.0.1", port=int(port))


def serve() -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    rng = random.Random(3)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            lines = rng.randrange(4, 9)
            text = "\n".join(f"x{number} = {rng.randrange(1000)}" for number in range(lines))
            if rng.random() < 0.2:
                text += "\n# TODO"
            time.sleep(0.05 + 0.008 * lines)
            answer = json.dumps(
                {
                    "id": "chat",
                    "object": "chat.completion",
                    "created": int(time.time()),
                    "model": body["model"],
                    "choices": [
                        {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                    ],
                    "usage": {"prompt_tokens": 30, "completion_tokens": lines * 5, "total_tokens": 30 + lines * 5},
                }
            ).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


async def connect(url: str):
    from mcp import Client

    for _ in range(100):
        client = Client(url)
        try:
            return await client.__aenter__()
        except Exception:
            await asyncio.sleep(0.2)
    raise TimeoutError(url)


async def train(port: int, url: str) -> None:
    import torch
    from openai import AsyncOpenAI
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(1)
    policy = nn.Sequential(nn.Embedding(256, 128), nn.Linear(128, 640), nn.GELU(), nn.Linear(640, 256))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-4)
    client = AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
    tools = await connect(url)

    async def rollout(number: int) -> tuple[str, float]:
        answer = await client.chat.completions.create(
            model="policy", messages=[{"role": "user", "content": f"Write program {number}."}], temperature=1.0
        )
        program = answer.choices[0].message.content
        tested = await tools.call_tool("run_tests", {"program": program})
        linted = await tools.call_tool("lint", {"program": program})
        passed, findings = (int(one.content[0].text.split()[0]) for one in (tested, linted))
        return program, passed / 10 - 0.1 * findings

    for step in range(1, STEPS + 1):
        begin = time.monotonic()
        found = await asyncio.gather(*(rollout(step * ROLLOUTS + number) for number in range(ROLLOUTS)))
        rewards = torch.tensor([reward for _, reward in found])
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        losses = []
        for (program, _), advantage in zip(found, advantages, strict=True):
            row = torch.tensor(list(program.encode()))
            losses.append(nn.functional.cross_entropy(policy(row[:-1]), row[1:]) * advantage)
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        line = {
            "step": step,
            "loss": round(loss.item(), 4),
            "grad_norm": round(norm.item(), 4),
            "reward/mean": round(rewards.mean().item(), 4),
            "seconds": round(time.monotonic() - begin, 3),
        }
        print(json.dumps(line), flush=True)
    await tools.__aexit__(None, None, None)
    await client.close()


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def main() -> None:
    environ = {"PATH": os.environ["PATH"]}
    port = free_port()
    tools = subprocess.Popen(
        [sys.executable, __file__, "sandbox", str(port)],
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    server = subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True, env=environ)
    try:
        asyncio.run(train(int(server.stdout.readline()), f"http://127.0.0.1:{port}/mcp"))
    finally:
        server.terminate()
        tools.terminate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["sandbox"]:
        sandbox(sys.argv[2])
    elif sys.argv[1:2] == ["serve"]:
        serve()
    else:
        main()
