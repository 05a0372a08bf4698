"""Runs and tools of Pydantic AI, whose own spans are switched on.

They come with content only by our switch. A program that has its own settings keeps them.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class PydanticAIInstrumentor(Instrumentor):
    """Patches the agent, and what calls its tools."""

    requirements: ClassVar = ("pydantic-ai-slim >= 2.38, < 3",)
    modules: ClassVar = {
        # The whole package: settings ask for its version.
        "pydantic_ai": "patch:patch_agent",
        "pydantic_ai.capabilities.instrumentation": "patch:patch_spans",
        "pydantic_ai.tool_manager": "patch:patch_tools",
    }
