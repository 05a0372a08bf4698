"""The job of the tour: GRPO in name only. Everybody sleeps, and logs values that follow from the step.

RANK=0 WORLD_SIZE=2 opentelemetry-instrument python train.py STEPS [fails]

Ranks meet by a file of the working directory; one alone does without torch. From step ``SLOW_FROM`` on rank 1 is slow.
Once there is a file ``late``, it does not come back from an update until there is a file ``go``, and the job ends
``STEPS_AFTER`` steps later. A job that fails does so in its last step.
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import otel_rl

if TYPE_CHECKING:
    from collections.abc import Callable

ROLLOUTS, SLOW_FROM, STEPS_AFTER = 4, 12, 4
STEPS, FAILS = int(sys.argv[1]), sys.argv[2:] == ["fails"]
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LATE, GO = Path("late"), Path("go")


def meet() -> Callable[[int], int]:
    """Give the collective in which ranks agree on the greatest value that one of them has."""
    if RANKS == 1:
        return lambda value: value
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=Path("meeting").absolute().as_uri(), rank=RANK, world_size=RANKS)

    def greatest(value: int) -> int:
        values = torch.tensor([value])
        dist.all_reduce(values, dist.ReduceOp.MAX)
        return int(values)

    return greatest


def roll_out(step: int, place: int) -> None:
    chance = random.Random(1000 * step + 10 * RANK + place)  # noqa: S311 - numbers for a picture
    task = 2 * step + RANK
    name = f"task {task}, try {place + 1}"
    with otel_rl.rollout(name, sample_id=task, group_id=task, policy_version=step) as rollout:
        for turn in range(1 + place % 3):
            with otel_rl.llm("policy-0.6b", provider="vllm") as call:
                time.sleep(0.02 + 0.03 * chance.random())
                call.usage(input_tokens=200 + 90 * turn, output_tokens=40 + chance.randrange(60))
            use_tool(step, place, chance)
        with otel_rl.reward_function("exact_match") as reward:
            time.sleep(0.004)
            is_right = chance.random() < reward_at(step)
            reward.score(float(is_right))
        rollout.train(is_right - 0.5)


def use_tool(step: int, place: int, chance: random.Random) -> None:
    with suppress(TimeoutError), otel_rl.tool("search" if place % 2 else "python"):
        time.sleep(0.01 + 0.015 * chance.random())
        if not place % 2 and step > SLOW_FROM and chance.random() < 1 / 4:
            raise TimeoutError("the sandbox did not answer")


def train(step: int, greatest: Callable[[int], int]) -> int:
    """Update, and return the number of the last step that the ranks agree on."""
    with otel_rl.phase("train"):
        is_slow = RANK == 1 and step >= SLOW_FROM
        time.sleep(0.06 + (0.06 if is_slow else 0.0))
        is_told = RANK == 1 and LATE.exists()
        while is_told and not GO.exists():
            time.sleep(0.02)
        return greatest(step if is_told else 0)


def reward_at(step: int) -> float:
    return 0.2 + 0.6 * (1 - math.exp(-step / 15))


def log(step: int) -> None:
    chance = random.Random(step)  # noqa: S311 - as above
    otel_rl.metric("reward", reward_at(step) + 0.04 * chance.gauss(0, 1))
    otel_rl.metric("loss", 0.4 * math.exp(-step / 20) + 0.02 * chance.random())
    otel_rl.metric("kl", 0.0004 * step * (1 + 0.1 * chance.random()))
    otel_rl.metric("entropy", 1.4 * math.exp(-step / 90) + 0.03 * chance.random())
    otel_rl.metric("grad_norm", 0.8 + 0.2 * chance.random())
    otel_rl.metric("learning_rate", 1e-6 * min(step / 10, 1))


def main() -> None:
    greatest, step, last = meet(), 0, STEPS
    with ThreadPoolExecutor(ROLLOUTS) as pool:
        while step < last:
            step += 1
            with otel_rl.step(step):
                with otel_rl.phase("sample"):
                    list(pool.map(roll_out, [step] * ROLLOUTS, range(ROLLOUTS)))
                if FAILS and step == STEPS:
                    raise ValueError("the reward is not finite")
                told = train(step, greatest)
                with otel_rl.phase("weight_sync"):
                    time.sleep(0.01)
                if RANK == 0:
                    log(step)
            if told and last == STEPS:
                last = step + STEPS_AFTER


if __name__ == "__main__":
    main()
