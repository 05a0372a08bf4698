"""Crews, their agents and tools. Model calls are those of the clients that crewAI uses."""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class CrewAIInstrumentor(Instrumentor):
    """Patches the runs of crews and agents, and the bus by which each tool is announced."""

    requirements: ClassVar = ("crewai >= 1.15.21, < 2",)
    modules: ClassVar = {
        "crewai.agent.core": "patch:patch_agents",
        "crewai.crew": "patch:patch_crews",
        "crewai.events.event_bus": "patch:patch_events",
    }
