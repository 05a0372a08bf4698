"""Model calls through the ``anthropic`` client, and runs of its tool runners, which are agents.

From 1.14 on the client has a span for each call itself: then ours adds what that lacks, and the metrics. Inside of the
span of an agent library it makes none. Where it is switched off (``ANTHROPIC_OPEN_TELEMETRY=false``), or the client is
older, the span is ours.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class AnthropicInstrumentor(Instrumentor):
    """Instruments the ``anthropic`` package."""

    library: ClassVar[str] = "anthropic"
    requirements: ClassVar = ("anthropic >= 1, < 3",)
    modules: ClassVar = {
        "anthropic._base_client": "patch:patch_base_client",
        "anthropic.lib.tools._beta_runner": "patch:patch_tool_runners",
    }
