"""Steps in which several judges are awaited at once; prints the share of the steps in which they were awaited."""

from __future__ import annotations

import asyncio
import sys
import time

import otel_rl

STEPS, SAMPLES = 20, 8


async def judge(_sample: int) -> float:
    await asyncio.sleep(0.05)
    return 1.0


def form(_sample: int) -> float:
    time.sleep(0.002)
    return 0.5


def length(_sample: int) -> float:
    time.sleep(0.002)
    return 0.25


async def train() -> float:
    """Return the share of the steps in which a judge was awaited."""
    import judges_program as named

    judged = whole = 0.0
    for step in range(1, STEPS + 1):
        with otel_rl.step(step):
            begin = time.perf_counter()
            await asyncio.gather(*[named.judge(sample) for sample in range(SAMPLES)])
            judged += time.perf_counter() - begin
            for sample in range(SAMPLES):
                named.form(sample)
                named.length(sample)
            await asyncio.sleep(0.15)
            whole += time.perf_counter() - begin
    return judged / whole


if __name__ == "__main__":
    sys.stdout.write(f"{asyncio.run(train())}\n")
