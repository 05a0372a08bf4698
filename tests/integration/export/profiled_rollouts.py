"""Two steps of a loop of its own, on each rank: rollouts beside each other with calls and tools, and a profiled update.

torchrun --nproc-per-node=2 profiled_rollouts.py FOLDER      (for the traces of the profiler)
"""

from __future__ import annotations

import math
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

import otel_rl

STEPS, ROLLOUTS = 2, 4


def roll_out(number: int) -> None:
    with otel_rl.rollout(sample_id=number, group_id="<img src=x onerror=alert(1)>"):
        with otel_rl.llm("tiny-model") as call:
            time.sleep(0.02)
            call.usage(input_tokens=8, output_tokens=2)
        with otel_rl.tool("search"):
            time.sleep(0.01)
        with otel_rl.reward_function("right"):
            otel_rl.reward("right", number % 2)


def train(step: int, traces: Path) -> None:
    rank = os.environ["RANK"]
    with profile(activities=[ProfilerActivity.CPU]) as profiled, record_function(f"update {step} of rank {rank}"):
        weights = torch.rand(64, 64, requires_grad=True)
        (weights @ weights).sum().backward()
    profiled.export_chrome_trace(str(traces / f"rank{rank}-{step}.pt.trace.json.gz"))


def main() -> None:
    traces = Path(sys.argv[1])
    for step in range(1, STEPS + 1):
        with otel_rl.step(step):
            with otel_rl.phase("sample"), ThreadPoolExecutor(ROLLOUTS) as pool:
                list(pool.map(roll_out, range(ROLLOUTS)))
            with otel_rl.phase("train"):
                train(step, traces)
            otel_rl.metric("loss", 1 / step)
            otel_rl.metric("kl", math.nan)


main()
