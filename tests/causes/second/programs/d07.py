"""Agentic rollouts with LangGraph: a policy behind an OpenAI server searches notes through an MCP server."""

from __future__ import annotations

import asyncio
import json
import operator
import os
import subprocess
import sys
import time
from typing import Annotated, Any, TypedDict

ITERATIONS = 56
TASKS = 4
TOPICS = ["harbour", "glacier", "orchard", "foundry", "lantern", "meadow", "quarry", "viaduct"]


def notes() -> None:
    """MCP server of the notes; the search is a hosted index with a plan of so many queries."""
    from mcp.server import MCPServer

    server = MCPServer("notes", log_level="ERROR")
    plan, used = 104, 0

    @server.tool()
    async def search_notes(query: str) -> str:
        """Search the notes; return numbers of those that fit."""
        nonlocal used
        await asyncio.sleep(0.04)
        if used >= plan:
            return f"Error 402: query plan exhausted ({plan} of {plan}), index unavailable until next month."
        used += 1
        word = query.rsplit(maxsplit=1)[-1]
        return json.dumps({"hits": [TOPICS.index(word) if word in TOPICS else 0]})

    @server.tool()
    async def read_note(number: int) -> str:
        """Return the text of a note."""
        await asyncio.sleep(0.03)
        return f"Note {number}: the code of the {TOPICS[number]} is {number * 37 + 11}."

    server.run()


def serve() -> None:
    """Inference server of the policy: searches, reads the first hit, answers."""
    import random
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    rng = random.Random(20)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            message = decide(body["messages"])
            time.sleep(0.05)
            tokens = sum(len(str(one.get("content"))) for one in body["messages"]) // 4
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
                    "usage": {"prompt_tokens": tokens, "completion_tokens": 14, "total_tokens": tokens + 14},
                }
            ).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    def call(turn: int, name: str, /, **arguments: Any) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call-{turn}", "type": "function", "function": function}],
        }

    def decide(messages: list[dict[str, Any]]) -> dict[str, Any]:
        topic = messages[0]["content"].rstrip("?").split()[-1]
        results = [one["content"] for one in messages if one["role"] == "tool"]
        if not results:
            return call(0, "search_notes", query=f"code of the {topic}")
        last = results[-1]
        if last.startswith("Note"):
            slip = 1 if rng.random() < 0.2 else 0
            return {"role": "assistant", "content": f"The answer is {int(last.rstrip('.').split()[-1]) + slip}"}
        try:
            return call(len(results), "read_note", number=json.loads(last)["hits"][0])
        except ValueError:
            if len(results) < 3:
                return call(len(results), "search_notes", query=f"{'secret ' * len(results)}{topic}")
        return {"role": "assistant", "content": "The answer is not in the notes"}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


class State(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]


async def train(port: int) -> None:
    import torch
    from langgraph.graph import END, START, StateGraph
    from mcp import ClientSession, StdioServerParameters, stdio_client
    from openai import AsyncOpenAI
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(2)
    policy = nn.Sequential(nn.Embedding(256, 128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 256))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-4)
    client = AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
    parameters = StdioServerParameters(command=sys.executable, args=[__file__, "notes"])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
            }
            for tool in (await session.list_tools()).tools
        ]

        async def model(state: State) -> dict[str, Any]:
            answer = await client.chat.completions.create(model="policy", messages=state["messages"], tools=tools)
            return {"messages": [answer.choices[0].message.model_dump(exclude_none=True)]}

        async def act(state: State) -> dict[str, Any]:
            found = []
            for call in state["messages"][-1]["tool_calls"]:
                result = await session.call_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
                found.append({"role": "tool", "tool_call_id": call["id"], "content": result.content[0].text})
            return {"messages": found}

        graph = StateGraph(State)
        graph.add_node("model", model)
        graph.add_node("tools", act)
        graph.add_edge(START, "model")
        graph.add_conditional_edges(
            "model", lambda state: "tools" if state["messages"][-1].get("tool_calls") else END, ["tools", END]
        )
        graph.add_edge("tools", "model")
        agent = graph.compile()

        for iteration in range(1, ITERATIONS + 1):
            begin = time.monotonic()
            numbers = [(iteration * 3 + task) % len(TOPICS) for task in range(TASKS)]
            episodes = await asyncio.gather(
                *(
                    agent.ainvoke(
                        {"messages": [{"role": "user", "content": f"What is the code of the {TOPICS[one]}?"}]}
                    )
                    for one in numbers
                )
            )
            finals = [episode["messages"][-1]["content"] for episode in episodes]
            rewards = torch.tensor(
                [float(final.endswith(f" {one * 37 + 11}")) for final, one in zip(finals, numbers, strict=True)]
            )
            rewards = rewards - 0.05 * torch.tensor([float(len(one["messages"])) for one in episodes])
            texts = [json.dumps(one["messages"])[:600].encode() for one in episodes]
            loss = torch.zeros(())
            for text, reward in zip(texts, rewards, strict=True):
                row = torch.tensor(list(text))
                loss = loss + nn.functional.cross_entropy(policy(row[:-1]), row[1:]) * (0.5 + reward) / len(texts)
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
    await client.close()


def main() -> None:
    server = subprocess.Popen(
        [sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}
    )
    try:
        asyncio.run(train(int(server.stdout.readline())))
    finally:
        server.terminate()


if __name__ == "__main__":
    {"notes": notes, "serve": serve}.get("".join(sys.argv[1:2]), main)()
