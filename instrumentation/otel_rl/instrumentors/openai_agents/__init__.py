"""Runs, agents, handoffs and tools of the OpenAI Agents SDK.

A run is a workflow; what the library's own spans begin and end below it, a switched-off tracing included, are its
agents and tools. Model calls are the ``openai`` instrumentor's. If the official
``opentelemetry-instrumentation-genai-openai-agents`` or OpenInference's is active, its spans are the spans.

===========  ====================================================
``runs``     runs of ``Runner``, each of which is a trajectory
``traced``   agents, tools and handoffs, by the library's spans
===========  ====================================================
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class OpenAIAgentsInstrumentor(Instrumentor):
    """Patches the runner, and the spans of ``agents.tracing``."""

    requirements: ClassVar = ("openai-agents >= 0.14, < 1",)
    modules: ClassVar = {
        "agents.exceptions": "traced:patch_timeouts",
        "agents.run": "runs:patch_runner",
        "agents.run_internal.run_loop": "runs:patch_streamed_runs",
        "agents.run_internal.tool_execution": "traced:patch_tools",
        "agents.run_internal.turn_resolution": "traced:patch_handoffs",
        "agents.tracing.spans": "traced:patch_spans",
    }
