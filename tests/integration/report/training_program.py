"""Two ranks that train with two reward functions: `torchrun ... training_program.py [SLOW_STEP RANK SECONDS]`.

From SLOW_STEP on, the reward function `score_b` of RANK takes SECONDS. Everything else is as in a healthy job: the
first steps are slow, one step writes a checkpoint, and the times vary.
"""

from __future__ import annotations

import random
import sys
import time

import torch
import torch.distributed as dist
from opentelemetry import trace

import otel_rl

STEPS = 40
slow_step, slow_rank, slow_seconds = (
    (int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])) if sys.argv[1:] else (0, 0, 0)
)
dist.init_process_group("gloo")
rank = dist.get_rank()
chance = random.Random(rank)  # noqa: S311 - no secret
tracer = trace.get_tracer("training_program")


def work(seconds: float) -> None:
    time.sleep(seconds * chance.uniform(0.9, 1.1))


def score(name: str, seconds: float) -> None:
    with tracer.start_as_current_span("rl.reward", attributes={"rl.phase": "reward", "rl.reward.name": name}):
        work(seconds)


gradient = torch.ones(1000)
for step in range(1, STEPS + 1):
    is_slow = slow_step and rank == slow_rank and step >= slow_step
    with otel_rl.step(step):
        with otel_rl.phase("sample"):
            work(0.1 if step > 2 else 0.4)
        with otel_rl.phase("reward"):
            score("score_a", 0.02)
            score("score_b", slow_seconds if is_slow else 0.0004)
        with otel_rl.phase("train"):
            work(0.06)
            dist.all_reduce(gradient)
        if step == 20 and rank == 0:
            with otel_rl.phase("checkpoint"):
                work(0.3)
        otel_rl.metric("reward", step / STEPS)
del gradient
dist.destroy_process_group()
