"""CPU time that our hooks add to a step of an environment, and to saving a small tensor in memory.

    python benchmarks/hot_hooks.py [--output FILE]

Each function of the library as it is, against the same with the instrumentor in place: CPU time of the thread, in turns
in one process, the least of several short stretches of each round. CartPole's episodes are whole, with resets.
"""

from __future__ import annotations

import io
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import gymnasium
import torch
from figures import finish, ratio_of_medians
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from otel_rl.instrumentors.gymnasium import GymnasiumInstrumentor
from otel_rl.instrumentors.torch_checkpoint import TorchCheckpointInstrumentor
from otel_rl.telemetry import deferral

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.instrumentors.base import Instrumentor

ROUNDS, STRETCHES = 40, 25
LIMIT = 1.1


class Idle:
    """Stands for the I/O thread: what it would record is no cost of the program's thread."""

    started = True

    def start(self) -> bool:
        """Do nothing."""
        return True

    def wake(self) -> None:
        """Do nothing."""


def cartpole() -> Callable[[], int]:
    environment = gymnasium.make("CartPole-v1")

    def episode() -> int:
        environment.reset(seed=0)
        steps, is_over = 0, False
        while not is_over:
            *_, terminated, truncated, _ = environment.step(steps % 2)
            steps, is_over = steps + 1, terminated or truncated
        return steps

    return episode


def save_in_memory() -> Callable[[], int]:
    tensor = torch.zeros(16)

    def save() -> int:
        for _ in range(20):
            torch.save(tensor, io.BytesIO())
        return 20

    return save


PROGRAMS: dict[str, tuple[Callable[[], Callable[[], int]], type[Instrumentor]]] = {
    "step of CartPole": (cartpole, GymnasiumInstrumentor),
    "small save in memory": (save_in_memory, TorchCheckpointInstrumentor),
}


def least(program: Callable[[], int]) -> float:
    """CPU nanoseconds of the thread per item."""
    times = []
    for _ in range(STRETCHES):
        began = time.thread_time_ns()
        items = program()
        times.append((time.thread_time_ns() - began) / items)
        deferral.posted.clear()
    return min(times)


def measure(make: Callable[[], Callable[[], int]], kind: type[Instrumentor]) -> list[tuple[float, float]]:
    samples = []
    for _ in range(ROUNDS):
        plain = least(make())
        kind().instrument()
        ours = least(make())
        kind().uninstrument()
        samples.append((ours, plain))
    return samples


def main() -> int:
    trace.set_tracer_provider(TracerProvider())
    deferral.accept_posts(Idle())
    samples = {name: measure(*program) for name, program in PROGRAMS.items()}
    figures: dict[str, Any] = {}
    for name, pairs in samples.items():
        figures[f"{name}: ratio"] = {**ratio_of_medians(pairs), "limit": LIMIT}
        added = statistics.median(ours - plain for ours, plain in pairs)
        figures[f"{name}: added us"] = {"value": round(added / 1000, 3)}
    return finish("hot_hooks", figures, samples, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
