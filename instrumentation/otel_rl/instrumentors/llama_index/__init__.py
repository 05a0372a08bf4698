"""Runs, agents, handoffs and tools of LlamaIndex's agent workflows.

Model calls are those of the client's instrumentor. If the official ``opentelemetry-instrumentation-genai-llama-index``
is active, its spans are the spans.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor

_WORKFLOW = "llama_index.core.agent.workflow"


class LlamaIndexInstrumentor(Instrumentor):
    """Patches agents, and workflows of several agents."""

    requirements: ClassVar = ("llama-index-core >= 0.14.12, < 0.15",)
    modules: ClassVar = {
        f"{_WORKFLOW}.base_agent": "patch:patch_agent",
        f"{_WORKFLOW}.multi_agent_workflow": "patch:patch_workflow",
    }
