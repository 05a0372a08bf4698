"""Agents of Google's ADK, which has spans and metrics for them: rows of their runs, tools that count, and outcomes.

Model calls are those of the client below, which adds to ADK's ``generate_content``.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class GoogleAdkInstrumentor(Instrumentor):
    """Instruments ``google-adk``."""

    requirements: ClassVar = ("google-adk >= 2.13, < 3",)
    modules: ClassVar = {
        "google.adk.runners": "patch:patch_runners",
        "google.adk.telemetry._instrumentation": "patch:patch_tool_spans",
        "google.adk.telemetry.tracing": "patch:patch_merged_tools",
    }
