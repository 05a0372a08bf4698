"""Instrumentation of ``torch.distributed``.

Counts collectives (calls, bytes, time to launch it, time waiting for it) by operation and
process group, publishes the sums as ``torch.distributed.collective.*`` and, per training step, on the ``rl.rank.step``
span. When the default process group is set up the process learns its rank, and the ranks agree on one run id.

``OTEL_RL_COLLECTIVES`` says which are counted: ``python``, those that Python code issues; ``all``, also those that C++
issues (the reducer of DDP, functional and compiled collectives); ``auto``, all where a program has such; ``off`` leaves
the process groups alone. A step with collectives that were not seen has the attribute ``torch.distributed.unseen``.
``OTEL_RL_SLOWEST`` is how many of the slowest collectives become events of each step. ``OTEL_RL_NCCL_TIMING`` lets
PyTorch time those of NCCL, which are published as ``torch.distributed.collectives``.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TorchDistributedInstrumentor(Instrumentor):
    """Patches the class ``ProcessGroup``, ``Work.wait`` and ``init_process_group``."""

    requirements: ClassVar = ("torch >= 2.4, < 3",)
    modules: ClassVar = {
        "torch.distributed.distributed_c10d": "patch:patch_distributed_c10d",
        "torch.nn.parallel.distributed": "patch:patch_data_parallel",
    }
