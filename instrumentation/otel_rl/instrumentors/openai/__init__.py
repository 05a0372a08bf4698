"""Model calls through the ``openai`` client: spans, metrics, and trace context on the wire.

One hook under all resources, ``{Sync,Async}APIClient.request``, sees chat, completions, responses, embeddings and raw
``client.post`` once per call with its retries inside, whatever class or helper the program used to get there.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class OpenAIInstrumentor(Instrumentor):
    """Instruments the ``openai`` package."""

    library: ClassVar[str] = "openai"
    requirements: ClassVar = ("openai >= 1.26, < 4",)
    modules: ClassVar = {
        "openai._base_client": "patch:patch_base_client",
        "openai.lib.streaming.chat._completions": "patch:patch_helper",
        "openai.lib.streaming.responses._responses": "patch:patch_helper",
    }
