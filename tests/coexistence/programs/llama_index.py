"""Runs of agents of LlamaIndex."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from coexistence.programs import Expected

if TYPE_CHECKING:
    from collections.abc import Callable

    from coexistence.programs import Servers

OURS = ("llama_index", "openai")
EXPECTED = {"agent": Expected(models=2, tokens=22, agents=1, tools=1)}


def calls(servers: Servers) -> dict[str, Callable[[], Any]]:
    """Each call by its name."""
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.llms.openai import OpenAI

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    model = OpenAI(model="gpt-4o", api_base=servers.scripted, api_key="none", max_retries=0)
    agent = FunctionAgent(tools=[add], llm=model, name="one")

    async def run() -> None:
        await agent.run("do add")

    return {"agent": lambda: asyncio.run(run())}
