"""Runs of the Claude Agent SDK, whose agent is a process of its own: what it reports in its messages.

The process reports the output tokens of a whole question only. So the last call of a question gets the rest of its
sums. The model calls of nested agents are not recorded.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class ClaudeAgentSDKInstrumentor(Instrumentor):
    """Follows the messages of both ways to ask the agent."""

    requirements: ClassVar = ("claude-agent-sdk >= 0.2.150, < 0.3",)
    modules: ClassVar = {"claude_agent_sdk.client": "patch:patch_client", "claude_agent_sdk.query": "patch:patch_query"}
