"""Agents, graph nodes and tools of LangChain and LangGraph.

Where the official ``opentelemetry-instrumentation-genai-langchain`` is active, its spans are the spans, and ours adds
what it does not see: tools that report a failure without raising, tools that a model made up, and control flow that is
no error. Otherwise a small callback handler of ours records the same tree. Model calls are the ``openai``
instrumentor's.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor
from otel_rl.instrumentors.langchain import genai_langchain, package, patch


class LangChainInstrumentor(Instrumentor):
    """Instruments ``langchain-core`` and ``langgraph``."""

    library: ClassVar[str] = "langchain"
    requirement: ClassVar[str] = package.REQUIREMENT
    modules: ClassVar = {
        "langchain_core.callbacks.manager": patch.patch_callback_managers,
        "langchain_core.runnables.base": patch.patch_config_context,
        "langchain_core.runnables.fallbacks": patch.patch_config_context,
        "langchain_core.tools.base": patch.patch_tools,
        "langgraph._internal._runnable": patch.patch_config_context,
        # Where the helper was before LangGraph 0.6.
        "langgraph.utils.runnable": patch.patch_config_context,
        "langgraph.prebuilt.tool_node": patch.patch_tool_node,
        genai_langchain.MODULE: genai_langchain.patch_handler,
    }
