"""Instrumentation of SGLang: ``Engine`` in the process of the program, and the own spans of its server.

These go to the server's endpoint (``--enable-trace``) as without us. Calls of a server are recorded by the client that
makes them (:mod:`otel_rl.inference.http`).
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class SGLangInstrumentor(Instrumentor):
    """Patches ``Engine``, what its requests pass, and its tracer; nothing of its scheduler and HTTP server."""

    requirements: ClassVar = ("sglang >= 0.5.23, < 1",)
    modules: ClassVar = {
        "sglang.srt.observability.trace": "own_tracer:patch_trace",
        "sglang.srt.entrypoints.engine": "engine:patch_engine",
        "sglang.srt.managers.tokenizer_manager": "engine:patch_tokenizer_manager",
    }
