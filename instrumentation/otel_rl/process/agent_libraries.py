"""Libraries that run agents or call models: which of them a program has loaded, and which of these nothing records."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: States of an instrumentor in which the library is recorded.
_RECORDING = ("active", "degraded")


class AgentLibrary(NamedTuple):
    """A library.

    Attributes:
        distribution: its name on PyPI.
        instrumentor: entry point of ours for it; None if there is none.
        is_client: it only calls models, and runs no tools.
    """

    distribution: str
    instrumentor: str | None
    is_client: bool = False


#: Module whose import shows that the library is loaded -> the library. Programs have modules called "agents", too.
LIBRARIES = {
    "agents.tracing": AgentLibrary("openai-agents", "otel_rl_openai_agents"),
    "agentscope": AgentLibrary("agentscope", None),
    "agno": AgentLibrary("agno", None),
    "anthropic": AgentLibrary("anthropic", "otel_rl_anthropic", is_client=True),
    "autogen": AgentLibrary("ag2", None),
    "autogen_agentchat": AgentLibrary("autogen-agentchat", "otel_rl_autogen"),
    "browser_use.agent": AgentLibrary("browser-use", None),
    "camel.agents": AgentLibrary("camel-ai", None),
    "claude_agent_sdk": AgentLibrary("claude-agent-sdk", "otel_rl_claude_agent_sdk"),
    "cohere": AgentLibrary("cohere", None, is_client=True),
    "crewai": AgentLibrary("crewai", "otel_rl_crewai"),
    "dashscope": AgentLibrary("dashscope", "otel_rl_dashscope", is_client=True),
    "dspy": AgentLibrary("dspy", "otel_rl_dspy"),
    "fastmcp": AgentLibrary("fastmcp", "otel_rl_fastmcp"),
    "google.adk": AgentLibrary("google-adk", "otel_rl_google_adk"),
    "google.genai": AgentLibrary("google-genai", "otel_rl_google_genai", is_client=True),
    "google.generativeai": AgentLibrary("google-generativeai", None, is_client=True),
    "haystack": AgentLibrary("haystack-ai", None),
    "langroid": AgentLibrary("langroid", None),
    "letta.agent": AgentLibrary("letta", None),
    "llama_index.core": AgentLibrary("llama-index-core", "otel_rl_llama_index"),
    "openenv": AgentLibrary("openenv", "otel_rl_openenv"),
    "pydantic_ai": AgentLibrary("pydantic-ai-slim", "otel_rl_pydantic_ai"),
    "qwen_agent": AgentLibrary("qwen-agent", None),
    "replicate": AgentLibrary("replicate", None, is_client=True),
    "semantic_kernel": AgentLibrary("semantic-kernel", None),
    "smolagents": AgentLibrary("smolagents", "otel_rl_smolagents"),
    "strands": AgentLibrary("strands-agents", "otel_rl_strands"),
    "verifiers": AgentLibrary("verifiers", "otel_rl_verifiers"),
}

#: Module -> distribution of clients that ask any provider by libraries below them, which record those that they know.
ROUTERS = {"litellm": "litellm"}


def loaded() -> list[str]:
    """Return the distributions of those that this process has loaded."""
    return [library.distribution for module, library in LIBRARIES.items() if module in sys.modules]


def unrecorded(distributions: Collection[str], states: Mapping[str, Any], *, clients: bool) -> list[str]:
    """Return which of ``distributions`` no active instrumentor of ours records.

    Args:
        distributions: as :func:`loaded` returns them.
        states: of the instrumentors, as :func:`otel_rl.core.instrumentor_status.snapshot` returns them.
        clients: clients of models, or else libraries that run agents and tools.
    """
    return sorted(
        library.distribution
        for library in LIBRARIES.values()
        if library.is_client == clients
        and library.distribution in distributions
        and not _is_recording(states.get(library.instrumentor or ""))
    )


def _is_recording(state: Any) -> bool:
    return isinstance(state, dict) and state.get("state") in _RECORDING
