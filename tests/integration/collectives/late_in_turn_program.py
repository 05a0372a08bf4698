"""Ranks that are late together, in turn or now and then: `torchrun ... late_in_turn_program.py KIND STEPS`.

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
values = torch.ones(10)
WORK, LATE = 0.05, 0.06
MORE = {
    "two_phases": {"sample": (0, LATE), "reward": (LATE, 0)},
    "two_of_four": {"train": (0, 0, LATE, LATE - 0.002)},
    "other_step": {"train": (0, 0)},
}[kind]
for step in range(1, steps + 1):
    with otel_rl.step(step):
        for phase, more in MORE.items():
            with otel_rl.phase(phase):
                time.sleep(WORK + more[rank])
                dist.all_reduce(values.fill_(1.0))
        if kind == "other_step" and rank == 0 and step % 2 == 0:
            with otel_rl.phase("evaluate"):
                time.sleep(0.3)
dist.destroy_process_group()
