"""Our own CPU time per step of a GRPO training on two ranks, measured directly.

    python benchmarks/grpo_step_cpu.py [--steps 120] [--output FILE]

The run is started by `opentelemetry-instrument torchrun` and writes the file store, as a user's would. Counted:
the CPU time of the threads named `otel-rl*`, and that of our replacements on the trainer's thread, less the originals
that they call (`own_cpu.py`). The clocks count the CPU time of one thread, so no waiting is in it. Reading the clock is
a system call: an empty stretch before each counted one tells its cost, which is taken off. The figure with it stands
beside.

A few more steps run under a profile hook and are not counted. It looks for calls into our code that are not timed.
Not in the figure: collections of the garbage collector in the program's own code that our objects bring forward, and
what our code pushes out of the caches. The comparison of whole steps (`grpo_step.py`) has both.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS = 120
WARM_UP = 8
AUDITED = 3
#: 0.5 % of a step of 0.65 s, and that share itself: a machine that is half as fast takes twice as long for both.
LIMIT_MS, LIMIT_SHARE = 3.25, 0.005
RANKS = 2
OUTPUT, NUMBER = "OTEL_RL_BENCHMARK_SAMPLES", "OTEL_RL_BENCHMARK_STEPS"


def train(folder: Path, steps: int) -> None:
    """Run one rank of the watched program, which writes one sample per step to ``folder``."""
    from own_cpu import Audit, OwnCpu

    own = OwnCpu()
    own.install()

    import transformers
    from grpo_program import train as run
    from opentelemetry import _logs, metrics, trace

    from otel_rl.core import own_cpu

    audit = Audit(own.host)
    functions: dict[str, tuple[int, int]] = {}
    threads: dict[str, int] = {}
    readings: list[tuple[float, float, tuple[int, ...], tuple[int, int]]] = []

    class Counting(transformers.TrainerCallback):
        def on_step_end(self, args: object, state: Any, *_: object, **__: object) -> None:
            if state.global_step == WARM_UP - 1:
                # The first export loads encoders and opens files: once per process, not per step.
                for provider in (
                    trace.get_tracer_provider(),
                    _logs.get_logger_provider(),
                    metrics.get_meter_provider(),
                ):
                    provider.force_flush()
            if state.global_step == WARM_UP:
                own.host.by_function.clear()
                own.host.entries_by_function.clear()
                own.read()
                own.threads.by_name.clear()
            if state.global_step == WARM_UP + steps:
                own.read()
                threads.update(own.threads.by_name)
                entries = own.host.entries_by_function
                functions.update((name, (spent, entries[name])) for name, spent in own.host.by_function.most_common())
            if state.global_step >= WARM_UP and len(readings) <= steps:
                estimate = own_cpu.nanoseconds(), own_cpu.threads_nanoseconds()
                readings.append((time.perf_counter(), time.process_time(), own.read(), estimate))
            if state.global_step == WARM_UP + steps:
                audit.start()
            elif state.global_step == WARM_UP + steps + AUDITED:
                audit.stop()

    run(WARM_UP + steps + AUDITED, Counting())
    result = {
        "steps": [
            {
                "seconds": later[0] - earlier[0],
                "process_cpu_s": later[1] - earlier[1],
                **dict(
                    zip(own.read()._fields, (b - a for a, b in zip(earlier[2], later[2], strict=True)), strict=True)
                ),
                "estimated_program_ns": later[3][0] - earlier[3][0],
                "estimated_threads_ns": later[3][1] - earlier[3][1],
            }
            for earlier, later in itertools.pairwise(readings)
        ],
        "by_function": {
            name: {"ms_per_step": round(spent / steps / 1e6, 4), "entries_per_step": round(entries / steps, 2)}
            for name, (spent, entries) in functions.items()
        },
        "by_thread": {name: round(spent / steps / 1e6, 4) for name, spent in threads.items()},
        "replacements": own.replacements,
        "by_place": {name: (calls, round(mean)) for name, (calls, mean) in own_cpu.by_place().items()},
        "entries_elsewhere": own.host.entries_elsewhere,
        "untimed": dict(audit.untimed),
    }
    (folder / f"rank{os.environ['RANK']}.json").write_text(json.dumps(result))


def measure(steps: int) -> list[dict[str, Any]]:
    """Return the samples of each rank."""
    from grpo_environment import environment

    with tempfile.TemporaryDirectory() as directory:
        variables = {**environment(directory), OUTPUT: directory, NUMBER: str(steps)}
        launcher = Path(sys.executable).with_name("opentelemetry-instrument")
        torchrun = Path(sys.executable).with_name("torchrun")
        command = [launcher, torchrun, f"--nproc-per-node={RANKS}", "--standalone", __file__]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr[-4000:])
        return [json.loads((Path(directory) / f"rank{rank}.json").read_text()) for rank in range(RANKS)]


def empty_stretch(steps: list[dict[str, float]]) -> float:
    """Nanoseconds that a stretch without any work counts."""
    return sum(step["empty_ns"] for step in steps) / sum(step["empty_stretches"] for step in steps)


def milliseconds(step: dict[str, float], clock_ns: float) -> float:
    """Our CPU time in one step."""
    return (step["host_ns"] - step["stretches"] * clock_ns + step["threads_ns"]) / 1e6


def _estimate(steps: list[dict[str, float]]) -> float:
    """Return what the process itself estimates for all these steps, in ms."""
    return sum(step["estimated_program_ns"] + step["estimated_threads_ns"] for step in steps) / 1e6


def figures_of(rank: int, measured: dict[str, Any]) -> dict[str, Any]:
    from figures import bootstrap

    steps = measured["steps"]
    if not measured["replacements"]:
        raise SystemExit(f"rank {rank}: no replacement was timed; something instrumented was imported too early")
    clock = empty_stretch(steps)

    def mean(values: list[float]) -> dict[str, float]:
        return bootstrap(values, statistics.fmean)

    own = mean([milliseconds(step, clock) for step in steps])
    share = mean([milliseconds(step, clock) / step["process_cpu_s"] / 1e3 for step in steps])
    untimed = sum(measured["untimed"].values()) + measured["entries_elsewhere"]
    return {
        f"rank {rank}: own CPU per step, ms": {**own, "judged": own["upper_95"], "limit": LIMIT_MS},
        f"rank {rank}: share of the step's CPU time": {**share, "judged": share["upper_95"], "limit": LIMIT_SHARE},
        f"rank {rank}: on the trainer's thread, ms": mean(
            [(step["host_ns"] - step["stretches"] * clock) / 1e6 for step in steps]
        ),
        f"rank {rank}: on threads of ours, ms": mean([step["threads_ns"] / 1e6 for step in steps]),
        f"rank {rank}: own CPU with the cost of the clock, ms": mean([milliseconds(step, 0) for step in steps]),
        f"rank {rank}: own estimate / measured": {
            "value": round(_estimate(steps) / sum(milliseconds(step, clock) for step in steps), 3)
        },
        f"rank {rank}: on the trainer's thread, own estimate / measured": {
            "value": round(
                sum(step["estimated_program_ns"] for step in steps)
                / sum(step["host_ns"] - step["stretches"] * clock for step in steps),
                3,
            )
        },
        f"rank {rank}: entries per step": {"value": statistics.median(step["entries"] for step in steps)},
        f"rank {rank}: entries that are not timed": {"value": untimed, "limit": 0},
        f"rank {rank}: reading the clock, us": {"value": round(clock / 1e3, 3)},
        f"rank {rank}: seconds per step": {"value": round(statistics.median(step["seconds"] for step in steps), 3)},
        f"rank {rank}: CPU seconds per step": {
            "value": round(statistics.median(step["process_cpu_s"] for step in steps), 3)
        },
    }


def main() -> int:
    if OUTPUT in os.environ:
        train(Path(os.environ[OUTPUT]), int(os.environ[NUMBER]))
        # Not before: it imports what is instrumented, and nothing would be timed.
        from grpo_two_ranks import end_process_group

        end_process_group()
        return 0
    from figures import finish

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--steps", type=int, default=STEPS)
    options, _ = parser.parse_known_args()
    measured = measure(options.steps)
    figures: dict[str, Any] = {}
    for rank, samples in enumerate(measured):
        figures |= figures_of(rank, samples)
    return finish("grpo_step_cpu", figures, measured, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
