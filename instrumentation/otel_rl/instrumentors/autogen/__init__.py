"""Agents of AutoGen, which has spans for them and their tools: rows of their runs, tools that count, and outcomes.

Its spans of messages have random ids in their names, no content and a trace each: they stay off unless the user asks
for them or gives the runtime a provider. A run of a team has no other span, so it gets one of ours.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class AutoGenInstrumentor(Instrumentor):
    """Instruments ``autogen-agentchat`` and the core below it."""

    requirements: ClassVar = ("autogen-agentchat >= 0.7.5, < 0.8", "autogen-core >= 0.7.5, < 0.8")
    modules: ClassVar = {
        "autogen_core._telemetry._tracing": "patch:patch_message_spans",
        "autogen_core._telemetry._genai": "patch:patch_tool_spans",
        "autogen_agentchat.agents._assistant_agent": "patch:patch_tool_calls",
        "autogen_agentchat.agents._base_chat_agent": "patch:patch_agents",
        "autogen_agentchat.teams._group_chat._base_group_chat": "patch:patch_teams",
    }
