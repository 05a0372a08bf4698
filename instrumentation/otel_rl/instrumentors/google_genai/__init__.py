"""Model calls through ``google-genai``, one per request, and the functions that the client calls for the model.

Automatic function calling is a request per turn. Each is a call of its own.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class GoogleGenAIInstrumentor(Instrumentor):
    """Instruments the ``google-genai`` package."""

    library: ClassVar[str] = "google_genai"
    requirements: ClassVar = ("google-genai >= 1.75, < 4",)
    modules: ClassVar = {
        "google.genai._api_client": "patch:patch_client",
        "google.genai._extra_utils": "patch:patch_functions",
    }
