"""Agents of Strands, which has spans for them: rows of their runs, tools and model calls that count, and outcomes.

``invoke_agent`` of Strands carries the sums of its tokens; those of a trajectory come from its model calls alone.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class StrandsInstrumentor(Instrumentor):
    """Instruments ``strands-agents``."""

    requirements: ClassVar = ("strands-agents >= 1.62, < 2",)
    modules: ClassVar = {
        "strands.telemetry.tracer": "patch:patch_content",
        "strands.agent.agent": "patch:patch_agent",
        "strands.multiagent.graph": "patch:patch_graph",
        "strands.multiagent.swarm": "patch:patch_swarm",
        "strands.tools.executors._executor": "patch:patch_tools",
        "strands.event_loop.event_loop": "patch:patch_cycles",
        "strands.event_loop.streaming": "patch:patch_models",
    }
