"""Requests to inference engines that a program makes with ``httpx``, and nothing of its other traffic."""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class HttpxInstrumentor(Instrumentor):
    """Instruments the ``httpx`` package."""

    library: ClassVar[str] = "httpx"
    requirements: ClassVar = ("httpx >= 0.27, < 1",)
    general_purpose: ClassVar = True
    modules: ClassVar = {"httpx._client": "patch:patch_client", "httpx._models": "patch:patch_models"}
