"""A LangGraph agent for a shop, with tools over MCP on two servers: `python agent.py [--steps N] ...`.

Each step runs some tasks, half of them with the tools of each server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from bugs import has, now
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.errors import GraphRecursionError
from langgraph.prebuilt import create_react_agent
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

import otel_rl

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("agent")
SERVER = Path(__file__).with_name("mcp_server.py")


class ShopModel(BaseChatModel):
    """A small model that knows which tool comes next."""

    @property
    def _llm_type(self) -> str:
        return "shop"

    def bind_tools(self, tools: Any, **_: Any) -> ShopModel:
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        read = sum(len(str(one.content)) for one in messages) // 4
        message = self.next_message(messages, read)
        written = message.usage_metadata["output_tokens"]
        time.sleep((0.003 + read * 1e-5 + written * 3e-4) * random.lognormvariate(0.0, 0.2))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def next_message(self, messages: Any, read: int) -> AIMessage:
        number = int(messages[0].content.rsplit(" ", 1)[1])
        results = [one for one in messages if isinstance(one, ToolMessage)]
        calls = [("find_order", {"number": number}), ("stock", {"item": number % 50}), ("refund", {"number": number})]
        wanted = 1 + number % 3
        written = random.randint(8, 30)
        usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        if has("never_satisfied", since=15) and results and number % 2:
            # A template lost the tool's result: the model asks for it once more.
            results = results[:1]
            calls[1] = calls[0]
            wanted = 3
        if results and str(results[-1].content).startswith("Error") and len(results) < 5:
            name, arguments = calls[len({one.name for one in results}) - 1]
        elif len(results) < wanted:
            name, arguments = calls[len(results)]
        else:
            return AIMessage("done, your order is on its way", usage_metadata=usage)
        call = {"name": name, "args": arguments, "id": f"call-{random.getrandbits(40):x}"}
        return AIMessage("", tool_calls=[call], usage_metadata=usage)


def tools_of(session: ClientSession) -> list[StructuredTool]:
    """The server's tools for an agent."""

    async def find_order(number: int) -> str:
        """Find an order by its number."""
        return await call(session, "find_order", number=number)

    async def stock(item: int) -> str:
        """How many of an item are in stock."""
        return await call(session, "stock", item=item)

    async def refund(number: int) -> str:
        """Pay for an order back."""
        return await call(session, "refund", number=number)

    return [StructuredTool.from_function(coroutine=one, handle_tool_error=True) for one in (find_order, stock, refund)]


async def call(session: ClientSession, name: str, **arguments: int) -> str:
    result = await session.call_tool(name, arguments)
    text = result.content[0].text
    return f"Error: {text}" if result.is_error else text


async def one_task(agent: Any, task: int) -> float:
    """Return the reward of a task."""
    with otel_rl.rollout(sample_id=str(task)) as record:
        try:
            given = {"messages": [HumanMessage(f"a customer asks about order {task}")]}
            found = await agent.ainvoke(given, {"recursion_limit": 25})
        except GraphRecursionError:
            otel_rl.reward("solved", 0.0)
            return 0.0
        failed = sum(str(one.content).startswith("Error") for one in found["messages"])
        reward = max(1.0 - 0.2 * failed - 0.02 * len(found["messages"]) + random.gauss(0.0, 0.05), 0.0)
        otel_rl.reward("solved", reward)
        record.succeed(not failed)
        return reward


@contextlib.contextmanager
def servers() -> Iterator[list[int]]:
    processes = [
        subprocess.Popen([sys.executable, SERVER, name], stdout=subprocess.PIPE, text=True)
        for name in ("warehouse-a", "warehouse-b")
    ]
    try:
        yield [int(process.stdout.readline()) for process in processes]
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    found = argparse.ArgumentParser()
    found.add_argument("--steps", type=int, default=32)
    found.add_argument("--tasks", type=int, default=8)
    found.add_argument("--seed", type=int, default=0)
    return found.parse_args(arguments)


async def run(options: argparse.Namespace, ports: list[int]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        agents = []
        for port in ports:
            streams = await stack.enter_async_context(streamable_http_client(f"http://127.0.0.1:{port}/mcp"))
            session = await stack.enter_async_context(ClientSession(*streams[:2]))
            await session.initialize()
            agents.append(create_react_agent(ShopModel(), tools_of(session)))
        client = await stack.enter_async_context(httpx.AsyncClient())
        for number in range(1, options.steps + 1):
            now["step"] = number
            for port in ports:
                await client.post(f"http://127.0.0.1:{port}/day", params={"number": number})
            with otel_rl.step(number):
                tasks = [random.randrange(1000) for _ in range(options.tasks)]
                with otel_rl.phase("sample"):
                    rewards = [await one_task(agents[place % 2], task) for place, task in enumerate(tasks)]
                otel_rl.metric("reward", statistics.fmean(rewards))
                log.info("step %d: mean reward %.3f", number, statistics.fmean(rewards))


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    for name in ("httpx", "httpx2", "mcp"):
        logging.getLogger(name).setLevel(logging.WARNING)
    random.seed(options.seed)
    with servers() as ports:
        log.info("tool servers: first=127.0.0.1:%d second=127.0.0.1:%d", *ports)
        asyncio.run(run(options, ports))


if __name__ == "__main__":
    main()
