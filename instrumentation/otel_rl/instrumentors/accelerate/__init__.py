"""Instrumentation of Hugging Face Accelerate, for programs that write their loop with it themselves.

``Accelerator.log`` becomes metrics and one event per call; ``save_state`` and ``save_model`` are checkpoints.
Accelerate knows no step: those of such a loop, and their phases, are guessed from PyTorch. Beneath a trainer of
Transformers, TRL or the like nothing is added: the trainer says what its steps are, and names itself as the system.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class AccelerateInstrumentor(Instrumentor):
    """Patches ``Accelerator``."""

    requirements: ClassVar = ("accelerate >= 1.1, < 2",)
    needs = ("torch_training",)
    training: ClassVar = {
        "steps": "guessed",
        "phases": "checkpoint, and what PyTorch shows",
        "values": "Accelerator.log",
    }
    modules: ClassVar = {"accelerate.accelerator": "patch:patch_accelerator"}
