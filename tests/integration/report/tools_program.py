"""Rollouts with tools: `tools_program.py [slow] [failing]`.

`slow`: the tool `search` takes 18 times as long as the others, all along. `failing`: from step 12 on, the tool
`run_code` fails in one of three rollouts, which then get no reward.
"""

from __future__ import annotations

import random
import sys
import time

import otel_rl

STEPS, ROLLOUTS = 24, 3
chance = random.Random(0)  # noqa: S311 - no secret


def use(name: str, seconds: float) -> None:
    with otel_rl.tool(name):
        time.sleep(seconds * chance.uniform(0.8, 1.2))


def run_code(*, fails: bool) -> float:
    try:
        with otel_rl.tool("run_code"):
            time.sleep(0.008)
            if fails:
                raise TimeoutError  # noqa: TRY301 - a tool that fails
    except TimeoutError:
        return 0.0
    return 1.0


for step in range(1, STEPS + 1):
    with otel_rl.step(step), otel_rl.phase("sample"):
        for number in range(ROLLOUTS):
            with otel_rl.rollout(sample_id=f"{step}-{number}"):
                time.sleep(0.01)
                use("calculator", 0.008)
                use("lookup", 0.008)
                use("search", 0.144 if "slow" in sys.argv else 0.008)
                # Samples that all got the same would teach nothing.
                worth = 1.5 - number / 2
                otel_rl.reward("solved", worth * run_code(fails="failing" in sys.argv and step >= 12 and number == 1))
