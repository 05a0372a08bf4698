"""What a program saves and loads by ``torch.save``, ``torch.load`` and ``torch.distributed.checkpoint``.

A save on disk of 64 KiB and 1 ms or more is a phase ``rl.checkpoint`` and one of the run's checkpoints; a load is a
phase ``rl.load`` or a part of the run. All are counted. ``async_save`` is the phase while it copies, and a span
``rl.checkpoint.persist`` until the copy is written.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TorchCheckpointInstrumentor(Instrumentor):
    """Patches the functions that save and load, of ``torch`` and ``torch.distributed.checkpoint``."""

    requirements: ClassVar = ("torch >= 2.4, < 3",)
    modules: ClassVar = {
        "torch.serialization": "patch:patch_serialization",
        "torch.distributed.checkpoint.state_dict_saver": "patch:patch_state_dict_saver",
        "torch.distributed.checkpoint.state_dict_loader": "patch:patch_state_dict_loader",
    }
