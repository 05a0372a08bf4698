"""A DDP job in which one rank comes to its end: `torchrun ... ending_program.py KIND RANK STEP FOLDER`."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import otel_rl

kind, late_rank, last_step, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
for step in range(1, last_step + 2):
    with otel_rl.step(step):
        with otel_rl.phase("sample"):
            time.sleep(0.1)
        with otel_rl.phase("reward"):
            if step == last_step and dist.get_rank() == late_rank:
                (folder / "began").write_text(str(time.time_ns()))
                if kind == "hang":
                    signal.pause()
                if kind == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if kind == "memory":
                    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
                    bytearray(1 << 40)
        with otel_rl.phase("train"):
            model(torch.ones(2, 8)).sum().backward()
dist.destroy_process_group()
