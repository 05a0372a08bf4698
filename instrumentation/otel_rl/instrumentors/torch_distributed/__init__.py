"""Instrumentation of ``torch.distributed``.

Counts every collective that Python issues (calls, bytes, time to launch it, time waiting for it) by operation and
process group, publishes the sums as ``torch.distributed.collective.*`` and, per training step, on the ``rl.rank.step``
span. When the default process group is set up the process learns its rank, and the ranks agree on one run id.

``OTEL_RL_COLLECTIVES=off`` leaves the process groups alone; ``OTEL_RL_SLOWEST`` is how many of the slowest collectives
become events of each step. Collectives that C++ issues (the reducer of DDP, compiled or functional collectives) do not
pass Python and are not counted; a step with such ones has the attribute ``torch.distributed.unseen``.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class TorchDistributedInstrumentor(Instrumentor):
    """Patches the class ``ProcessGroup``, ``Work.wait`` and ``init_process_group``."""

    library = "torch_distributed"
    requirements: ClassVar = ("torch >= 2.4, < 3",)
    modules: ClassVar = {"torch.distributed.distributed_c10d": "patch:patch_distributed_c10d"}
