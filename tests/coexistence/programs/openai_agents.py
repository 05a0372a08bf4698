"""Runs of agents of OpenAI's Agents SDK."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from coexistence.programs import Expected

if TYPE_CHECKING:
    from collections.abc import Callable

    from coexistence.programs import Servers

OURS = ("openai_agents", "openai")
_RUN = Expected(models=2, tokens=22, agents=1, tools=1)
EXPECTED = {"agent": _RUN, "agent, streamed": _RUN}


def calls(servers: Servers) -> dict[str, Callable[[], Any]]:
    """Each call by its name."""
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
    from openai import AsyncOpenAI

    @function_tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def agent() -> Any:
        # Its connections belong to an event loop.
        client = AsyncOpenAI(api_key="none", base_url=servers.scripted, max_retries=0)
        return Agent(name="one", model=OpenAIChatCompletionsModel(model="tiny", openai_client=client), tools=[add])

    async def run() -> None:
        await Runner.run(agent(), "do add")

    async def streamed() -> None:
        async for _ in Runner.run_streamed(agent(), "do add").stream_events():
            pass

    return {"agent": lambda: asyncio.run(run()), "agent, streamed": lambda: asyncio.run(streamed())}
