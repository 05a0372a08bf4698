"""A DDP loop as a plan says: `torchrun ... ddp_program.py PLAN.json`.

PLAN: ``steps``; ``fetched``: ``inside`` where a step begins before its data comes, ``between`` where it begins after
that, ``phase`` where that is marked as a phase; ``checkpoint``: a step at which rank 0 writes one; and ``change``:
``step``, ``rank``, and one of ``stall`` (seconds, in the data), ``kill`` and ``hang``.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import otel_rl

plan: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
change: dict[str, Any] = plan.get("change", {})
dist.init_process_group("gloo")
rank = dist.get_rank()
chance = random.Random(rank)  # noqa: S311 - no secret


def is_changed(name: str, step: int) -> bool:
    return name in change and rank == change["rank"] and step >= change["step"]


def work(seconds: float) -> None:
    time.sleep(seconds * chance.uniform(0.9, 1.1))


class Samples(torch.utils.data.Dataset):
    """Data that takes its time."""

    def __len__(self) -> int:
        return plan["steps"]

    def __getitem__(self, number: int) -> torch.Tensor:
        work(0.01 + (change["stall"] if is_changed("stall", number + 1) else 0.0))
        return torch.rand(64)


def end(step: int) -> None:
    """End, or do not, where the plan says so."""
    if is_changed("kill", step):
        os.kill(os.getpid(), signal.SIGKILL)
    if is_changed("hang", step):
        threading.Event().wait()


def score(step: int) -> None:
    with otel_rl.phase("reward"):
        work(0.02)
        end(step)


def fetch(batches):
    with otel_rl.phase("data_wait") if plan.get("fetched") == "phase" else contextlib.nullcontext():
        return next(batches)


def train(model, optimizer, batch) -> None:
    with otel_rl.phase("train"):
        loss = model(batch).square().mean()
        work(0.05)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    otel_rl.metric("loss", loss.item())


def main() -> None:
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter(torch.utils.data.DataLoader(Samples(), batch_size=1))
    for step in range(1, plan["steps"] + 1):
        batch = None if plan.get("fetched") == "inside" else fetch(batches)
        with otel_rl.step(step):
            batch = fetch(batches) if batch is None else batch
            score(step)
            train(model, optimizer, batch)
            if step == plan.get("checkpoint") and rank == 0:
                with otel_rl.phase("checkpoint"):
                    torch.save(model.state_dict(), "checkpoint.pt")
                    work(0.2)
    del model, optimizer
    gc.collect()
    dist.destroy_process_group()


main()
