"""Instrumentation of tensorboardX: the values and parameters given to a ``SummaryWriter``."""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TensorboardXInstrumentor(Instrumentor):
    """Patches the ``SummaryWriter``."""

    requirements: ClassVar = ("tensorboardX >= 2.6.1, < 3",)
    modules: ClassVar = {"tensorboardX.writer": "patch:patch_writer"}
