"""Instrumentation of Weights & Biases: what a run logs, and its configuration.

Every log call of a run passes ``Run._log``, that of a disabled run too, which is recorded as any other.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class WandbInstrumentor(Instrumentor):
    """Patches the run."""

    requirements: ClassVar = ("wandb >= 0.17.9, < 1",)
    modules: ClassVar = {"wandb.sdk.wandb_run": "patch:patch_run"}
