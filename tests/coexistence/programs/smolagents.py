"""Runs of agents of smolagents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coexistence.programs import Expected

if TYPE_CHECKING:
    from collections.abc import Callable

    from coexistence.programs import Servers

OURS = ("smolagents", "openai")
#: The answer is a tool, too.
EXPECTED = {"agent": Expected(models=2, tokens=22, agents=1, tools=2)}


def calls(servers: Servers) -> dict[str, Callable[[], Any]]:
    """Each call by its name."""
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: one.
            b: another.
        """
        return a + b

    model = OpenAIServerModel("tiny", api_base=servers.scripted, api_key="none")
    agent = ToolCallingAgent(tools=[add], model=model, verbosity_level=0)
    return {"agent": lambda: agent.run("do add, final_answer")}
