"""Runs, tools and local models of smolagents.

Calls of a model's server are those of its client's instrumentor.

==========  ==========================================================
``agents``  runs of agents; an agent that another one manages is a tool
``models``  calls of models that have no client
``tools``   tools, whichever kind of agent calls them, and code
==========  ==========================================================
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class SmolagentsInstrumentor(Instrumentor):
    """Patches agents and tools."""

    requirements: ClassVar = ("smolagents >= 1.23, < 2",)
    modules: ClassVar = {
        "smolagents.agents": "agents:patch_agents",
        "smolagents.local_python_executor": "tools:patch_local_executor",
        "smolagents.remote_executors": "tools:patch_remote_executors",
        "smolagents.tools": "tools:patch_tools",
    }
