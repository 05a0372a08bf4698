"""Requests to inference engines that a program makes with ``requests``, TRL's client of vLLM among them."""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class RequestsInstrumentor(Instrumentor):
    """Instruments the ``requests`` package."""

    library: ClassVar[str] = "requests"
    requirements: ClassVar = ("requests >= 2.28, < 3",)
    general_purpose: ClassVar = True
    modules: ClassVar = {"requests.sessions": "patch:patch_sessions", "requests.models": "patch:patch_models"}
