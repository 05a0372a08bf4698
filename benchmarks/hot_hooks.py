"""CPU time that our hooks add to a step of an environment, and to saving a small tensor or a megabyte.

    python benchmarks/hot_hooks.py [--output FILE]

Each function of the library as it is, against the same with the instrumentor in place: CPU time of the thread, in turns
in one process, the least of several short stretches of each round. The environments: CartPole as `gymnasium.make`
returns it, and one whose step does nothing, which tells what a step costs. CartPole's episodes are whole, with resets.
"""

from __future__ import annotations

import io
import statistics
import sys
import tempfile
import time
from pathlib import Path
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
#: A save on disk has a span and a record, of which the thread does a part: less than a real disk takes.
LIMITED = ("step of CartPole", "small save in memory")
#: ns that a step may cost more.
STEP_LIMIT = 1000


class Empty(gymnasium.Env):
    """Does nothing, and never ends."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Begin."""
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Go on."""
        return 0, 1.0, False, False, {}


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


def empty() -> Callable[[], int]:
    environment = Empty()

    def episode() -> int:
        environment.reset()
        for _ in range(500):
            environment.step(0)
        return 500

    return episode


def save_in_memory() -> Callable[[], int]:
    tensor = torch.zeros(16)

    def save() -> int:
        for _ in range(20):
            torch.save(tensor, io.BytesIO())
        return 20

    return save


def save_on_disk() -> Callable[[], int]:
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()  # noqa: S108
    tensor, path = torch.zeros(1 << 18), Path(folder) / "otel-rl-benchmark.pt"

    def save() -> int:
        torch.save(tensor, path)
        path.unlink()
        return 1

    return save


PROGRAMS: dict[str, tuple[Callable[[], Callable[[], int]], type[Instrumentor]]] = {
    "step of CartPole": (cartpole, GymnasiumInstrumentor),
    "empty step": (empty, GymnasiumInstrumentor),
    "small save in memory": (save_in_memory, TorchCheckpointInstrumentor),
    "save of 1 MiB": (save_on_disk, TorchCheckpointInstrumentor),
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
        ratio = ratio_of_medians(pairs)
        figures[f"{name}: ratio"] = {**ratio, "limit": LIMIT} if name in LIMITED else ratio
        added = statistics.median(ours - plain for ours, plain in pairs)
        figures[f"{name}: added ns"] = {"value": round(added)}
    figures["empty step: added ns"]["limit"] = STEP_LIMIT
    return finish("hot_hooks", figures, samples, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
