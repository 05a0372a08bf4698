"""Ranks that are late in turn or together: `torchrun ... late_in_turn_program.py KIND STEPS`.

All work is sleep, so that a busy machine disturbs little.
"""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist

import otel_rl

kind, steps = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
WORK, LATE = 0.02, 0.25
# Of two ranks, one is late in a phase before a collective of Python, the other one in the backward pass of DDP.
# Of four, two are late at the same place.
IN_REWARD, IN_BACKWARD, IN_TRAIN = (0, LATE), (LATE, 0), (0, 0, LATE, LATE - 0.002)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        between = self.first(given)
        if IN_BACKWARD[rank]:
            between.register_hook(lambda _: time.sleep(IN_BACKWARD[rank]))
        return self.second(between)


model = torch.nn.parallel.DistributedDataParallel(Model()) if kind == "two_places" else None
values = torch.ones(10)
for step in range(1, steps + 1):
    with otel_rl.step(step):
        if model is not None:
            with otel_rl.phase("reward"):
                time.sleep(WORK)
                time.sleep(IN_REWARD[rank])
                dist.all_reduce(values.fill_(1.0))
        with otel_rl.phase("train"):
            time.sleep(WORK)
            if model is not None:
                model(torch.ones(4, 8)).sum().backward()
            else:
                time.sleep(IN_TRAIN[rank])
                dist.all_reduce(values.fill_(1.0))
dist.destroy_process_group()
