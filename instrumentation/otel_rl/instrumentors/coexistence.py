"""Instrumentors of others that record the same library. Each run asks again, because the load order varies."""

from __future__ import annotations

import sys


def is_active(module: str, name: str) -> bool:
    """Return whether the instrumentor class ``name`` of ``module`` has instrumented its library."""
    kind = getattr(sys.modules.get(module), name, None)
    instrumentor = getattr(kind, "_instance", None)
    return bool(getattr(instrumentor, "is_instrumented_by_opentelemetry", False))
