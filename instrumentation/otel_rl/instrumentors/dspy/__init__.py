"""Programs of DSPy: the outermost module and agents in it, their tools, and the model calls of DSPy's own HTTP client.

An answer of DSPy's cache is no request, and no model call. Older versions ask models through LiteLLM and ``openai``,
whose calls are those of their instrumentors.

===============  ==========================================================
``programs``     modules and tools
``transport``    requests of ``lm15``, the HTTP client inside of DSPy 3.4
===============  ==========================================================
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class DSPyInstrumentor(Instrumentor):
    """Patches modules, tools and the client."""

    requirements: ClassVar = ("dspy >= 2.6.27, < 4",)
    modules: ClassVar = {
        "dspy._vendor.lm15.transports._async": "transport:patch_async",
        "dspy._vendor.lm15.transports._sync": "transport:patch_sync",
        "dspy._vendor.lm15.transports._types": "transport:patch_responses",
        "dspy.adapters.types.tool": "programs:patch_tools",
        # Since 3.0, and before it.
        "dspy.primitives.module": "programs:patch_modules",
        "dspy.primitives.program": "programs:patch_modules",
    }
