"""Thousands of rollouts that are open at once in one event loop: do spans keep their parents, and what does one cost.

    python benchmarks/concurrent_rollouts.py [--rollouts 8192] [--waves 4] [--output FILE]

A rollout asks a model through the asynchronous client of `openai` whose transport answers at once, waits until all
others have done so too, calls a tool and is rewarded. So all of a wave are open at one time. The program runs plain and
under `opentelemetry-instrument` with the file store, alternately. The first wave of a run is its warm-up. CPU time is
that of the whole process, with our threads and a flush after each wave.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import rollout_programs
from figures import bootstrap, finish

ROLLOUTS, WAVES, RUNS = 8192, 4, 2
#: Spans of a rollout: its own, a model call, a tool.
SPANS = 3


async def _wave(client: Any, number: int, wave: int) -> int:
    """Run all rollouts at once; returns how many were open at one time."""
    from chat_workload import TURN

    import otel_rl

    waiting, everybody = 0, asyncio.Event()

    async def rollout(sample: int) -> None:
        nonlocal waiting
        with otel_rl.rollout(f"{wave}-{sample}", sample_id=sample, group_id=sample // 8):
            await client.chat.completions.create(**TURN)
            waiting += 1
            if waiting == number:
                everybody.set()
            await everybody.wait()
            with otel_rl.tool("search"):
                await asyncio.sleep(0)
            otel_rl.reward("accuracy", sample % 2)

    await asyncio.gather(*(rollout(sample) for sample in range(number)))
    return waiting


def watched(number: int, waves: int) -> None:
    """Run the program, which writes a sample per wave."""
    from chat_workload import Workload

    import otel_rl

    client = Workload().async_client
    samples = []
    loop = asyncio.new_event_loop()
    for wave in range(waves):
        gc.collect()
        began = time.process_time_ns()
        open_at_once = loop.run_until_complete(_wave(client, number, wave))
        otel_rl.flush(60)
        spent = time.process_time_ns() - began
        gc.collect()
        samples.append(
            {
                "cpu_us": spent / number / 1000,
                "open_at_once": open_at_once,
                "objects": len(gc.get_objects()),
            }
        )
    loop.close()
    rollout_programs.finish(samples)


def parents(directory: Path) -> Counter[str]:
    """Spans that reached the file store; of those of calls how many lie below the rollout of their trace."""
    spans = rollout_programs.spans(directory)
    rollouts = {span["traceId"]: span["spanId"] for span in spans if span["name"] == "rl.rollout"}
    found: Counter[str] = Counter(delivered=len(rollouts))
    for span in spans:
        if span["name"] in ("chat m", "execute_tool search"):
            found["delivered"] += 1
            # A span whose rollout is lost cannot be told right from wrong: it is counted for neither.
            if span["traceId"] in rollouts:
                found["right" if span["parentSpanId"] == rollouts[span["traceId"]] else "wrong"] += 1
    return found


def _samples(folder: str, options: argparse.Namespace, *, watched: bool) -> list[dict[str, Any]]:
    # The spans of all rollouts: whether they keep their parents is the question.
    variables = {"OTEL_RL_DATA_MAX_BYTES": str(4 << 30), "OTEL_RL_ROLLOUT_SPANS": str(options.rollouts * options.waves)}
    numbers = options.rollouts, options.waves
    samples: list[dict[str, Any]] = rollout_programs.run(__file__, Path(folder), *numbers, watched=watched, **variables)
    return samples


def main() -> int:
    """Measure, print and write the result; returns the exit status."""
    if numbers := rollout_programs.numbers():
        watched(*numbers)
        return 0
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS)
    parser.add_argument("--waves", type=int, default=WAVES)
    options, _ = parser.parse_known_args()
    pairs, found, all_samples = [], Counter[str](), []
    growth: list[float] = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as ours:
            without = _samples(plain, options, watched=False)
            samples = _samples(ours, options, watched=True)
            found += parents(Path(ours))
        pairs += [(a["cpu_us"], b["cpu_us"]) for a, b in zip(samples[1:], without[1:], strict=True)]
        # The first waves fill tables and pools.
        growth.append((samples[-1]["objects"] - samples[1]["objects"]) / options.rollouts / (options.waves - 2))
        all_samples.append({"with": samples, "without": without})
    expected = options.rollouts * options.waves * RUNS
    at_once = min(sample["open_at_once"] for each in all_samples for sample in each["with"])
    figures = {
        "rollouts open at once": {"value": at_once, "at_least": options.rollouts},
        "share of spans that were delivered": {"value": found["delivered"] / expected / SPANS, "at_least": 1.0},
        "spans below their rollout": {"value": found["right"]},
        "spans with another parent": {"value": found["wrong"], "limit": 0},
        "objects more per rollout": {"value": round(max(growth), 5), "limit": 0.01},
        "CPU added per rollout, us": bootstrap(pairs, lambda drawn: statistics.median(a - b for a, b in drawn)),
        "CPU per rollout without, us": bootstrap([b for _, b in pairs], statistics.median),
    }
    return finish("concurrent_rollouts", figures, all_samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
