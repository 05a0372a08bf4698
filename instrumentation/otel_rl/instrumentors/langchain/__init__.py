"""Agents, graph nodes and tools of LangChain and LangGraph.

Where the official ``opentelemetry-instrumentation-genai-langchain`` is active, its spans are the spans, and ours adds
what it does not see: tools that report a failure without raising, tools that a model made up, and control flow that is
no error. Otherwise a small callback handler of ours records the same tree. Model calls are the ``openai``
instrumentor's.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class LangChainInstrumentor(Instrumentor):
    """Instruments ``langchain-core`` and ``langgraph``."""

    requirements: ClassVar = ("langchain-core >= 0.3.40, < 2", "langgraph >= 0.4, < 2")
    modules: ClassVar = {
        "langchain_core.callbacks.manager": "patch:patch_callback_managers",
        "langchain_core.language_models.chat_models": "models:patch_chat_models",
        "langchain_core.language_models.llms": "models:patch_completion_models",
        "langchain_core.runnables.config": "patch:patch_config_context",
        # Where the official instrumentor came first, these have its own.
        "langchain_core.runnables.base": "patch:patch_config_context",
        "langchain_core.runnables.fallbacks": "patch:patch_config_context",
        "langchain_core.tools.base": "tools:patch_tools",
        "langgraph._internal._runnable": "patch:patch_graph_context",
        "langgraph.pregel._loop": "patch:patch_graph_loop",
        "langgraph.pregel.loop": "patch:patch_graph_loop",
        "langgraph.utils.runnable": "patch:patch_config_context",
        "langgraph.prebuilt.tool_node": "tools:patch_tool_node",
        # The official instrumentor, which ours adds to.
        "opentelemetry.instrumentation.genai.langchain.callback_handler": "genai_langchain:patch_handler",
        "opentelemetry.instrumentation.genai.langchain._run_context": "genai_langchain:patch_runs",
    }
