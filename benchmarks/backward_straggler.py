"""A DDP job whose rank 1 works 60 ms longer in one backward function, for otel-rl and for TraceML 0.3 beside it.

    opentelemetry-instrument torchrun --nproc-per-node=2 benchmarks/backward_straggler.py; otel-rl report
    traceml run benchmarks/backward_straggler.py --nproc-per-node 2 --args --traceml

The second one in an environment of its own, with torch and traceml-ai. All work is sleep. docs/stragglers.md has what
both say.
"""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WITH_TRACEML = "--traceml" in sys.argv
if WITH_TRACEML:
    import traceml_ai

    traceml_ai.init(mode="auto")
else:
    import otel_rl

LATE_RANK, LATE, STEPS, LAYERS = 1, 0.06, 120, 4
dist.init_process_group("gloo")


class Layer(torch.autograd.Function):
    """Takes its time in the backward pass."""

    @staticmethod
    def forward(ctx, given, number):  # noqa: D102
        ctx.number = number
        return given * 1

    @staticmethod
    def backward(ctx, gradient):  # noqa: D102
        time.sleep(0.015 + (LATE if ctx.number == 1 and dist.get_rank() == LATE_RANK else 0))
        return gradient * 1, None


class Model(torch.nn.Module):
    """As many buckets as layers: the gradients of one leave while the next is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(LAYERS))

    def forward(self, given):  # noqa: D102
        for number, layer in enumerate(self.layers):
            given = Layer.apply(layer(given), number)
        time.sleep(0.09)
        return given


class Data(torch.utils.data.Dataset):
    """One sample a step."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, number):
        time.sleep(0.03)
        return torch.ones(256)


model = DistributedDataParallel(Model(), bucket_cap_mb=0.2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for step, batch in enumerate(torch.utils.data.DataLoader(Data(), batch_size=1)):
    traced = traceml_ai.trace_step(model) if WITH_TRACEML else otel_rl.step(step)
    with traced, nullcontext() if WITH_TRACEML else otel_rl.phase("train"):
        optimizer.zero_grad(set_to_none=True)
        model(batch).sum().backward()
        optimizer.step()
dist.destroy_process_group()
