"""Our own CPU time per step of a GRPO training on two ranks, measured directly.

    python benchmarks/grpo_step_cpu.py [--steps 120] [--output FILE]

The run is started by `opentelemetry-instrument torchrun` and writes the file store, as a user's would. Counted:
the CPU time of the threads named `otel-rl*`, and that of our replacements on the trainer's thread, less the originals
that they call (`own_cpu.py`). The clocks count the CPU time of one thread, so no waiting is in it. Reading the clock is
a system call: an empty stretch before each counted one says its cost, which is taken off.

A few more steps run under a profile hook and are not counted. It looks for calls into our code that are not timed.
Not in the figure: collections of the garbage collector in the program's own code that our objects bring forward, and
what our code pushes out of the caches.
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
from typing import TYPE_CHECKING, Any

from figures import BIN, bootstrap, environment, finish

if TYPE_CHECKING:
    from transformers import TrainerCallback

ROOT = Path(__file__).parents[1]
STEPS = 120
WARM_UP = 8
AUDITED = 3
#: 0.5 % of a step of 0.65 s, and that share itself: a machine that is half as fast takes twice as long for both.
LIMIT_MS, LIMIT_SHARE = 3.25, 0.005
RANKS = 2
#: Completions of a step and rank, their tokens, and the micro-batches that train on them.
COMPLETIONS, TOKENS, PASSES = 128, 96, 8
OUTPUT, NUMBER = "OTEL_RL_BENCHMARK_SAMPLES", "OTEL_RL_BENCHMARK_STEPS"


def train(steps: int, callback: TrainerCallback) -> None:
    """Train with the trainer of the example, in steps that all do the same work."""
    from grpo_two_ranks import additions, digit_reward, end_process_group, length_reward
    from tiny_model import build
    from trl import GRPOConfig, GRPOTrainer

    with tempfile.TemporaryDirectory() as directory:
        GRPOTrainer(
            model=str(build(Path(directory) / "model")),
            reward_funcs=[length_reward, digit_reward],
            train_dataset=additions(0, 64),
            callbacks=[callback],
            args=GRPOConfig(
                output_dir=directory,
                max_steps=steps,
                per_device_train_batch_size=COMPLETIONS // PASSES,
                gradient_accumulation_steps=PASSES,
                num_generations=8,
                max_completion_length=TOKENS,
                generation_kwargs={"min_new_tokens": TOKENS},
                beta=0.04,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                bf16=False,
                disable_tqdm=True,
            ),
        ).train()
    end_process_group()


def run_rank(folder: Path, steps: int) -> None:
    """Run one rank of the watched program, which writes one sample per step to ``folder``."""
    from own_cpu import Audit, OwnCpu

    own = OwnCpu()
    own.install()

    # Not before: what is instrumented would be imported, and nothing would be timed.
    import transformers
    from opentelemetry import _logs, metrics, trace

    from otel_rl.core import own_cpu

    audit = Audit(own.host)
    readings: list[dict[str, float]] = []

    def read() -> dict[str, float]:
        return {
            "process_cpu_s": time.process_time(),
            "estimated_program_ns": own_cpu.nanoseconds(),
            "estimated_threads_ns": own_cpu.threads_nanoseconds(),
            **own.read()._asdict(),
        }

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
            if WARM_UP <= state.global_step <= WARM_UP + steps:
                readings.append(read())
            if state.global_step == WARM_UP + steps:
                audit.start()
            elif state.global_step == WARM_UP + steps + AUDITED:
                audit.stop()

    train(WARM_UP + steps + AUDITED, Counting())
    result = {
        "steps": [
            {name: later[name] - earlier[name] for name in later} for earlier, later in itertools.pairwise(readings)
        ],
        "replacements": own.replacements,
        "entries_elsewhere": own.host.entries_elsewhere,
        "untimed": dict(audit.untimed),
    }
    (folder / f"rank{os.environ['RANK']}.json").write_text(json.dumps(result))


def measure(steps: int) -> list[dict[str, Any]]:
    """Return the samples of each rank."""
    with tempfile.TemporaryDirectory() as directory:
        variables = environment(
            OTEL_RL_DATA_DIR=directory,
            OTEL_RL_QUIET="1",
            OMP_NUM_THREADS="1",
            HF_HUB_OFFLINE="1",
            # The code of this checkout, whatever the environment has installed.
            PYTHONPATH=os.pathsep.join(str(ROOT / name) for name in ("examples", "instrumentation")),
            **{OUTPUT: directory, NUMBER: str(steps)},
        )
        torchrun = [BIN / "torchrun", f"--nproc-per-node={RANKS}", "--standalone", __file__]
        command = [BIN / "opentelemetry-instrument", *torchrun]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr[-4000:])
        return [json.loads((Path(directory) / f"rank{rank}.json").read_text()) for rank in range(RANKS)]


def figures_of(rank: int, measured: dict[str, Any]) -> dict[str, Any]:
    steps = measured["steps"]
    if not measured["replacements"]:
        raise SystemExit(f"rank {rank}: no replacement was timed; something instrumented was imported too early")
    # What a stretch without any work counts.
    clock = sum(step["empty_ns"] for step in steps) / sum(step["empty_stretches"] for step in steps)
    trainer = [(step["host_ns"] - step["stretches"] * clock) / 1e6 for step in steps]
    threads = [step["threads_ns"] / 1e6 for step in steps]
    both = [sum(parts) for parts in zip(trainer, threads, strict=True)]
    cpu = [step["process_cpu_s"] for step in steps]
    own = bootstrap(both, statistics.fmean)
    share = bootstrap([ms / seconds / 1e3 for ms, seconds in zip(both, cpu, strict=True)], statistics.fmean)
    # What the process itself estimates for all these steps.
    estimate = sum(step["estimated_program_ns"] + step["estimated_threads_ns"] for step in steps) / 1e6
    untimed = sum(measured["untimed"].values()) + measured["entries_elsewhere"]
    figures: dict[str, Any] = {
        "own CPU per step, ms": {**own, "judged": own["upper_95"], "limit": LIMIT_MS},
        "share of the step's CPU time": {**share, "judged": share["upper_95"], "limit": LIMIT_SHARE},
        "on the trainer's thread, ms": bootstrap(trainer, statistics.fmean),
        "on threads of ours, ms": bootstrap(threads, statistics.fmean),
        "own estimate / measured": {"value": round(estimate / sum(both), 3)},
        "entries that are not timed": {"value": untimed, "limit": 0},
        "CPU seconds per step": {"value": round(statistics.median(cpu), 3)},
    }
    return {f"rank {rank}: {name}": figure for name, figure in figures.items()}


def main() -> int:
    if OUTPUT in os.environ:
        run_rank(Path(os.environ[OUTPUT]), int(os.environ[NUMBER]))
        return 0
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
