"""Requests to inference engines that a program makes with ``aiohttp``, and nothing of its other traffic."""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class AiohttpInstrumentor(Instrumentor):
    """Instruments the client of the ``aiohttp`` package."""

    library: ClassVar[str] = "aiohttp"
    requirements: ClassVar = ("aiohttp >= 3.9, < 4",)
    general_purpose: ClassVar = True
    modules: ClassVar = {
        "aiohttp.client": "patch:patch_client",
        "aiohttp.client_reqrep": "patch:patch_response",
        "aiohttp.streams": "patch:patch_streams",
    }
