"""Customer-service rollouts with LangChain agents; their policy is served by two inference servers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from typing import Any

ITERATIONS = 54
TASKS = 4


def serve(name: str, plain_until: str) -> None:
    """Inference server; after so many requests it is exchanged for one with another parser of tool calls."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    rng = random.Random(name)
    requests = 0

    def camel(word: str) -> str:
        first, *others = word.split("_")
        return first + "".join(one.title() for one in others)

    def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
        if requests > int(plain_until):
            arguments = {camel(key): value for key, value in arguments.items()}
        function = {"name": tool, "arguments": json.dumps(arguments)}
        calls = [{"id": f"{name}-{requests}-{number}", "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    def decide(messages: list[dict[str, Any]]) -> dict[str, Any]:
        question = next(one["content"] for one in messages if one["role"] == "user")
        order, currency = question.rstrip("?").split()[3], question.rstrip("?").split()[-1]
        results = [str(one["content"]) for one in messages if one["role"] == "tool"]
        if not results:
            return call(0, "find_order", order_id=order)
        if results[-1].startswith("amount"):
            return call(1, "convert", amount=float(results[-1].split()[1]), currency=currency)
        if results[-1].startswith("converted"):
            unit = currency if rng.random() < 0.85 else "EUR"
            return {"role": "assistant", "content": f"It cost {results[-1].split()[1]} {unit}"}
        if len(results) < 3:
            return call(len(results), "find_order", order_id=order)
        return {"role": "assistant", "content": "I could not find the order"}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            nonlocal requests
            requests += 1
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            message = decide(body["messages"])
            time.sleep(0.06)
            tokens = len(json.dumps(body["messages"])) // 4
            answer = json.dumps(
                {
                    "id": f"{name}-{requests}",
                    "object": "chat.completion",
                    "created": int(time.time()),
                    "model": body["model"],
                    "choices": [
                        {
                            "index": 0,
                            "message": message,
                            "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
                        }
                    ],
                    "usage": {"prompt_tokens": tokens, "completion_tokens": 18, "total_tokens": tokens + 18},
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


async def train(addresses: list[str]) -> None:
    import torch
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(6)
    rng = random.Random(6)
    amounts = {str(number): 10 + number % 90 for number in range(1000, 2000)}

    @tool
    async def find_order(order_id: str) -> str:
        """Find what an order cost, in euro."""
        await asyncio.sleep(0.03)
        return f"amount {amounts[order_id]}"

    @tool
    async def convert(amount: float, currency: str) -> str:
        """Convert an amount in euro to another currency."""
        await asyncio.sleep(0.02)
        return f"converted {amount * {'USD': 2, 'GBP': 3, 'SEK': 4}[currency]:g}"

    agents = [
        create_agent(ChatOpenAI(model="policy", base_url=f"{one}/v1", api_key="none"), [find_order, convert])
        for one in addresses
    ]
    policy = nn.Sequential(nn.Embedding(256, 128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 256))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-4)

    async def episode(number: int) -> tuple[str, float, int]:
        order, currency = str(rng.randrange(1000, 2000)), rng.choice(["USD", "GBP", "SEK"])
        question = f"What did order {order} cost me in {currency}?"
        state = await agents[number % len(agents)].ainvoke({"messages": [{"role": "user", "content": question}]})
        text = state["messages"][-1].content
        wanted = f"It cost {amounts[order] * {'USD': 2, 'GBP': 3, 'SEK': 4}[currency]:g} {currency}"
        return " ".join(str(one.content) for one in state["messages"]), float(text == wanted), len(state["messages"])

    for iteration in range(1, ITERATIONS + 1):
        begin = time.monotonic()
        episodes = await asyncio.gather(*(episode(number) for number in range(TASKS)))
        rewards = torch.tensor([reward for _, reward, _ in episodes])
        losses = []
        for (text, _, _), reward in zip(episodes, rewards, strict=True):
            row = torch.tensor(list(text.encode()[:400]))
            losses.append(nn.functional.cross_entropy(policy(row[:-1]), row[1:]) * (0.2 + reward))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(
            json.dumps(
                {
                    "iteration": iteration,
                    "loss": round(loss.item(), 4),
                    "reward/mean": round(rewards.mean().item(), 4),
                    "messages/mean": sum(count for _, _, count in episodes) / TASKS,
                    "seconds": round(time.monotonic() - begin, 3),
                }
            ),
            flush=True,
        )


def main() -> None:
    servers, addresses = [], []
    for name, plain_until in {"first": "1000000", "second": "192"}.items():
        servers.append(
            subprocess.Popen(
                [sys.executable, __file__, "serve", name, plain_until],
                stdout=subprocess.PIPE,
                text=True,
                env={"PATH": os.environ["PATH"]},
            )
        )
        port = int(servers[-1].stdout.readline())
        print(f"{name}=127.0.0.1:{port}", flush=True)
        addresses.append(f"http://127.0.0.1:{port}")
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
