"""Requests to inference engines that a program makes with ``urllib3``, and the chunks of what ``requests`` reads."""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class Urllib3Instrumentor(Instrumentor):
    """Instruments the ``urllib3`` package."""

    library: ClassVar[str] = "urllib3"
    requirements: ClassVar = ("urllib3 >= 1.26, < 3",)
    general_purpose: ClassVar = True
    modules: ClassVar = {
        "urllib3.connectionpool": "patch:patch_connection_pool",
        "urllib3.poolmanager": "patch:patch_pool_manager",
        "urllib3.response": "responses:patch_response",
    }
