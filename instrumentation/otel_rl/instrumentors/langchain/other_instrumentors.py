"""Detects other instrumentors that record LangChain. Each run asks again, because the load order varies."""

from __future__ import annotations

import sys

_OTHERS = (
    ("opentelemetry.instrumentation.genai.langchain", "LangChainInstrumentor"),
    ("opentelemetry.instrumentation.langchain", "LangchainInstrumentor"),
    ("openinference.instrumentation.langchain", "LangChainInstrumentor"),
)


def is_taken() -> bool:
    """True while the official instrumentor, traceloop's or OpenInference's is active."""
    for module_name, class_name in _OTHERS:
        kind = getattr(sys.modules.get(module_name), class_name, None)
        instrumentor = getattr(kind, "_instance", None)
        if getattr(instrumentor, "is_instrumented_by_opentelemetry", False):
            return True
    return False
