"""Requests to inference engines that a program makes with ``httpx2``, on which ``openai`` 3 and ``mcp`` 2 run."""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class Httpx2Instrumentor(Instrumentor):
    """Instruments the ``httpx2`` package."""

    library: ClassVar[str] = "httpx2"
    requirements: ClassVar = ("httpx2 >= 2, < 3",)
    general_purpose: ClassVar = True
    modules: ClassVar = {"httpx2._client": "patch:patch_client", "httpx2._models": "patch:patch_models"}
