"""Instrumentation of PyTorch itself, for training loops that no other instrumentor knows.

Steps are guessed (:mod:`otel_rl.training.guessed_steps`) from the hooks that PyTorch has for all optimizers, from
``torch.autograd.backward``, which every backward pass goes through, and from the batches of its data loaders. They end
when a trainer or the program itself speaks of steps.

Nothing that a compiled graph contains is patched, but for ``clip_grad_norm_``, of which Dynamo is told to trace the
original.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TorchTrainingInstrumentor(Instrumentor):
    """Hooks all optimizers; patches ``backward``, clipping, and the iterators of data loaders."""

    requirements: ClassVar = ("torch >= 2.4, < 3",)
    training: ClassVar = {
        "steps": "guessed",
        "phases": "data wait, forward, backward, optimizer, evaluation",
        "values": "loss, learning rate, gradient norm where it is clipped, throughput",
    }
    modules: ClassVar = {
        "torch.optim.optimizer": "patch:patch_optimizer",
        "torch.autograd": "patch:patch_autograd",
        "torch.utils.data.dataloader": "patch:patch_dataloader",
        "torch.nn.utils.clip_grad": "patch:patch_clipping",
        "torch.distributed.fsdp.fully_sharded_data_parallel": "patch:patch_sharded_clipping",
    }
