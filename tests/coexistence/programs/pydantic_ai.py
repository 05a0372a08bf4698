"""Runs of agents of Pydantic AI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coexistence.programs import Expected

if TYPE_CHECKING:
    from collections.abc import Callable

    from coexistence.programs import Servers

OURS = ("pydantic_ai", "openai")
EXPECTED = {"agent": Expected(models=2, tokens=22, agents=1, tools=1)}


def calls(servers: Servers) -> dict[str, Callable[[], Any]]:
    """Each call by its name."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("tiny", provider=OpenAIProvider(base_url=servers.scripted, api_key="none"))
    agent = Agent(model, name="one")

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return {"agent": lambda: agent.run_sync("do add")}
