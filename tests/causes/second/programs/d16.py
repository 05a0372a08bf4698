"""Agentic rollouts with the tool node of LangGraph; pages come from an MCP server that is slow and at times busy."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from typing import Any

ITERATIONS = 42
TASKS = 4


def pages() -> None:
    from mcp.server import MCPServer

    server = MCPServer("pages", log_level="ERROR")
    rng = random.Random(14)

    @server.tool()
    async def fetch_page(address: str) -> str:
        """Fetch a page."""
        await asyncio.sleep(0.22 + rng.lognormvariate(-3.2, 0.6))
        if rng.random() < 0.03:
            raise RuntimeError("503 the site is busy, try again")
        number = int(address.rsplit("/", 1)[1])
        return f"Page {number}. " + "Some text of the page. " * rng.randrange(3, 12) + f"The price is {number * 7}."

    @server.tool()
    async def add(left: int, right: int) -> str:
        """Add two numbers."""
        return str(left + right)

    server.run()


def serve() -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    rng = random.Random(15)

    def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"id": f"call-{number}-{rng.getrandbits(30):x}", "type": "function", "function": function}

    def price(text: str) -> int:
        return int(text.rstrip(".").split()[-1])

    def decide(messages: list[dict[str, Any]]) -> dict[str, Any]:
        question = next(one["content"] for one in messages if one["role"] == "user")
        wanted = [int(word) for word in question.replace("?", "").split() if word.isdigit()]
        results = [str(one["content"]) for one in messages if one["role"] == "tool"]
        prices = {int(one.split()[1].rstrip(".")): price(one) for one in results if one.startswith("Page")}
        missing = [number for number in wanted if number not in prices]
        if missing:
            calls = [call(number, "fetch_page", address=f"shop/{number}") for number in missing]
        elif not results[-1].isdigit():
            calls = [call(0, "add", left=prices[wanted[0]], right=prices[wanted[1]])]
        else:
            wrong = rng.random() < 0.35
            return {"role": "assistant", "content": f"Together {int(results[-1]) + (10 if wrong else 0)}"}
        return {"role": "assistant", "content": None, "tool_calls": calls}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            message = decide(body["messages"])
            time.sleep(0.05)
            tokens = len(json.dumps(body["messages"])) // 4
            answer = json.dumps(
                {
                    "id": "chat",
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
                    "usage": {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20},
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


async def train(port: int) -> None:
    import torch
    from langchain_core.tools import StructuredTool, ToolException
    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition
    from mcp import ClientSession, StdioServerParameters, stdio_client
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(4)
    rng = random.Random(16)
    policy = nn.Sequential(nn.Embedding(256, 96), nn.Linear(96, 384), nn.GELU(), nn.Linear(384, 256))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-4)
    parameters = StdioServerParameters(command=sys.executable, args=[__file__, "pages"])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()

        def as_tool(tool) -> StructuredTool:
            async def run(**arguments: Any) -> str:
                result = await session.call_tool(tool.name, arguments)
                if result.is_error:
                    raise ToolException(result.content[0].text)
                return result.content[0].text

            return StructuredTool(
                name=tool.name,
                description=tool.description,
                args_schema=tool.input_schema,
                coroutine=run,
                handle_tool_error=True,
            )

        tools = [as_tool(one) for one in (await session.list_tools()).tools]
        model = ChatOpenAI(model="policy", base_url=f"http://127.0.0.1:{port}/v1", api_key="none").bind_tools(tools)

        async def think(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph = StateGraph(MessagesState)
        graph.add_node("think", think)
        graph.add_node("tools", ToolNode(tools))
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", tools_condition)
        graph.add_edge("tools", "think")
        agent = graph.compile()

        for iteration in range(ITERATIONS):
            begin = time.monotonic()
            pairs = [(rng.randrange(100), 100 + rng.randrange(100)) for _ in range(TASKS)]
            episodes = await asyncio.gather(
                *(
                    agent.ainvoke({"messages": [("user", f"What do articles {left} and {right} cost together?")]})
                    for left, right in pairs
                )
            )
            finals = [one["messages"][-1].content for one in episodes]
            rewards = torch.tensor(
                [
                    float(text == f"Together {(left + right) * 7}")
                    for text, (left, right) in zip(finals, pairs, strict=True)
                ]
            )
            rewards = rewards + 0.1 * torch.randn(TASKS)
            losses = []
            for episode, advantage in zip(episodes, rewards - rewards.mean(), strict=True):
                text = " ".join(str(one.content) for one in episode["messages"])[:500].encode()
                row = torch.tensor(list(text))
                losses.append(nn.functional.cross_entropy(policy(row[:-1]), row[1:]) * (1 + advantage))
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
                        "messages/mean": sum(len(one["messages"]) for one in episodes) / TASKS,
                        "seconds": round(time.monotonic() - begin, 3),
                    }
                ),
                flush=True,
            )


def main() -> None:
    server = subprocess.Popen(
        [sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}
    )
    try:
        asyncio.run(train(int(server.stdout.readline())))
    finally:
        server.terminate()


if __name__ == "__main__":
    {"pages": pages, "serve": serve}.get("".join(sys.argv[1:2]), main)()
