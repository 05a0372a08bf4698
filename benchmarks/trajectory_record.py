"""CPU time that the record of trajectories adds to a GRPO step, on the trainer's thread and on an I/O thread.

    python benchmarks/trajectory_record.py [--samples 64] [--repeats 500]

Calls the hooks as TRL does, with lists and a tensor of the sizes that a step has. A real step finds the caches colder.
"""

from __future__ import annotations

import argparse
import statistics
import time
from types import SimpleNamespace

import torch
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider

from otel_rl.instrumentors.trl.samples import Samples
from otel_rl.telemetry import deferral
from otel_rl.training import trajectories


class Trainer:
    """What the hooks read of a trainer."""

    accelerator = SimpleNamespace(process_index=0, num_processes=1)
    args = SimpleNamespace(reward_weights=None)
    state = SimpleNamespace(global_step=1)
    reward_func_names = ("accuracy", "format")
    num_generations, eos_token_id, pad_token_id = 8, 1, 0


class IdleThread:
    """Stands for the I/O thread: posts wait until they are drained."""

    started = True

    def start(self) -> bool:
        """It runs."""
        return True

    def wake(self) -> None:
        """Nothing to do."""


def main() -> None:
    """Print the median of each part in microseconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=500)
    options = parser.parse_args()
    trace.set_tracer_provider(TracerProvider())
    _logs.set_logger_provider(LoggerProvider())
    deferral.accept_posts(IdleThread())
    samples, trainer = Samples(), Trainer()
    prompts = [[7] * options.tokens for _ in range(options.samples)]
    completions = [[7] * options.tokens for _ in range(options.samples)]
    advantages = torch.zeros(options.samples)
    scores = {"accuracy": [1.0] * options.samples, "format": [0.5] * options.samples}
    on_trainer, on_io = [], []
    for _ in range(options.repeats):
        began = time.thread_time_ns()
        samples.sampled(trainer, (prompts, completions, None, ["text"] * options.samples))
        samples.scored(trainer, {"advantages": advantages}, scores)
        on_trainer.append(time.thread_time_ns() - began)
        began = time.thread_time_ns()
        trajectories.record()
        on_io.append(time.thread_time_ns() - began)
        deferral.posted.clear()
    for name, found in (("trainer's thread", on_trainer), ("I/O thread", on_io)):
        print(f"{name}: median {statistics.median(found) / 1000:.0f} µs for {options.samples} samples")


if __name__ == "__main__":
    main()
