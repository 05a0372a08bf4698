"""Instrumentation of SwanLab: what a run logs, and its configuration."""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class SwanLabInstrumentor(Instrumentor):
    """Patches the run, and the configuration where it is written."""

    requirements: ClassVar = ("swanlab >= 0.9, < 1",)
    modules: ClassVar = {
        "swanlab.sdk.internal.run": "patch:patch_run",
        "swanlab.sdk.internal.run.components.config": "patch:patch_config",
    }
