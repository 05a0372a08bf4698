"""Instrumentation of TensorBoard as torch writes for it: the values and parameters given to a ``SummaryWriter``."""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TensorBoardInstrumentor(Instrumentor):
    """Patches torch's ``SummaryWriter``."""

    requirements: ClassVar = ("tensorboard >= 2.14, < 3", "torch >= 2.4, < 3")
    modules: ClassVar = {"torch.utils.tensorboard.writer": "patch:patch_writer"}
