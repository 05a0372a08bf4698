"""A DDP job whose delays are known: `torchrun ... injected_program.py PLAN.json FOLDER`.

All work is sleep, so that two cores carry four ranks. Each rank writes when the delayed steps of each injection began
and ended. PLAN: ``length`` (s) and ``steps``; ``injections``: kind, rank, first and last step, seconds per step;
``noise``: share of the length by which the work of every rank varies from step to step; ``gathered``: small collectives
at the end of each step.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import otel_rl

plan = json.loads(Path(sys.argv[1]).read_text())
dist.init_process_group("gloo")
rank, length = dist.get_rank(), plan["length"]
chance = random.Random(rank)  # noqa: S311 - no secret
now: dict[str, float] = {}
times: dict[str, dict[str, int]] = {}


def injected(step: int) -> dict[str, float]:
    """Kind -> seconds of delay in this step of this rank."""
    active = [one for one in plan["injections"] if one["rank"] == rank and one["first"] <= step <= one["last"]]
    return {one["kind"]: one["seconds"] for one in active}


def work(share: float, kind: str) -> None:
    varied = 1 + chance.uniform(-plan["noise"], plan["noise"])
    time.sleep(length * share * varied + now.get(kind, 0.0))


class Layer(torch.autograd.Function):
    """Takes its time in the backward pass."""

    @staticmethod
    def forward(ctx, given, number):
        ctx.number = number
        return given * 1

    @staticmethod
    def backward(ctx, gradient):
        work(0.05, "backward" if ctx.number == 1 else "")
        if now.get("network"):
            # The link of this rank: every message leaves it late.
            time.sleep(now["network"] / LAYERS)
        return gradient * 1, None


LAYERS = 4


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(LAYERS))

    def forward(self, given):
        for number, layer in enumerate(self.layers):
            given = Layer.apply(layer(given), number)
        return given


metric = torch.ones(1)
# One layer a bucket: its gradients leave while the next is computed.
model = DistributedDataParallel(Model(), bucket_cap_mb=0.2)
for step in range(1, plan["steps"] + 1):
    now = injected(step)
    began = time.time_ns()
    with otel_rl.phase("data_wait"):
        work(0.1, "data")
    with otel_rl.step(step):
        with otel_rl.phase("sample"):
            work(0.3, "compute")
        with otel_rl.phase("reward"):
            work(0.1, "reward")
        with otel_rl.phase("train"):
            loss = model(torch.ones(2, 256)).sum()
            work(0.3, "")
            loss.backward()
            for _ in range(plan["gathered"]):
                dist.all_reduce(metric.fill_(1.0))
        if step == plan.get("checkpoint") and rank == 0:
            with otel_rl.phase("checkpoint"):
                time.sleep(4 * length)
    for one in plan["injections"]:
        if one["first"] <= step <= one["last"]:
            times.setdefault(str(one["number"]), {"began": began, "first_ended": time.time_ns()})["ended"] = (
                time.time_ns()
            )
Path(sys.argv[2], f"times-{rank}.json").write_text(json.dumps(times))
dist.destroy_process_group()
