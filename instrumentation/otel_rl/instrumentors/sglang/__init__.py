"""Instrumentation of SGLang's server: its own spans go to its endpoint (``--enable-trace``) as without us.

Calls of a server are recorded by the client that makes them (:mod:`otel_rl.inference.http`).
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class SGLangInstrumentor(Instrumentor):
    """Patches the module of its tracer; nothing of its engine, scheduler or HTTP server."""

    library: ClassVar[str] = "sglang"
    requirements: ClassVar = ("sglang >= 0.5.23, < 1",)
    modules: ClassVar = {"sglang.srt.observability.trace": "own_tracer:patch_trace"}
