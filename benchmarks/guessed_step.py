"""CPU time that guessing takes of a step of a plain PyTorch loop, on the thread that trains.

    python benchmarks/guessed_step.py [--rounds 60] [--output FILE]

A program under ``opentelemetry-instrument``, with all that follows steps. ``warm``: the hooks of a step with a batch, a
backward pass and an optimizer, one after the other with nothing in between; a sample is the mean of a block of steps.
``small model``: blocks of real steps (data loader, forward, backward, AdamW) with the instrumentor of ``torch`` and
without it, in turning order; there the processor's caches are cold for our code, and the figure is the difference of
the fastest blocks. Before each block the I/O threads record what waits; what they record is in no figure.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from figures import bootstrap, finish, instrumented
from torch.utils.data import DataLoader, TensorDataset

import otel_rl
from otel_rl.core.guard import RAISE_ENVIRONMENT_VARIABLE
from otel_rl.instrumentors.torch_training import TorchTrainingInstrumentor, patch

if TYPE_CHECKING:
    from collections.abc import Callable

#: Steps of a block, and of what comes first and does not count.
STEPS, WARM_STEPS, WARM_UP = 10, 100, 200
#: Seconds that the I/O threads get to record a block.
RECORDING = 60
#: Option of the program: where its samples go.
PROGRAM = "--program"


def _timed(run: Callable[[int], None], steps: int) -> float:
    """Return microseconds of CPU of a step."""
    otel_rl.flush(RECORDING)
    run(steps)
    began = time.thread_time_ns()
    run(steps)
    return (time.thread_time_ns() - began) / steps / 1000


def _training() -> Callable[[int], None]:
    """Train a small model for so many steps."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(torch.randn(4 * WARM_UP, 16)), batch_size=4)

    def run(steps: int) -> None:
        for (inputs,), _ in zip(loader, range(steps), strict=False):
            model(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


class _Batches:
    """An iterator of a data loader that has its batch at hand."""

    def __init__(self) -> None:
        self._dataset, self._num_yielded = self, 1
        self._batch = [torch.zeros(4, 16)]

    def __next__(self) -> Any:
        return self._batch


def _hooks() -> Callable[[int], None]:
    """Run the hooks of so many steps."""
    parameter, loss, batches = torch.nn.Parameter(torch.zeros(16)), torch.zeros(()), _Batches()
    optimizer = torch.optim.SGD([parameter], lr=1e-3)
    following = patch._following_next(_Batches.__next__)
    backward = patch._following_backward(lambda *_, **__: None)

    def run(steps: int) -> None:
        for _ in range(steps):
            following(batches)
            backward(loss)
            patch._optimizer_begins(optimizer, (optimizer,), {})
            patch._optimizer_ended(optimizer, (optimizer,), {})

    return run


def program(rounds: int, output: Path) -> None:
    """Measure, and write the samples."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    instrumentor, train, hooks = TorchTrainingInstrumentor(), _training(), _hooks()
    train(WARM_UP)
    hooks(WARM_UP)
    samples: dict[str, list[float]] = {"warm": [], "with": [], "without": []}
    for number in range(rounds):
        samples["warm"].append(_timed(hooks, WARM_STEPS))
        for way in ("with", "without") if number % 2 else ("without", "with"):
            if instrumentor.is_instrumented_by_opentelemetry:
                instrumentor.uninstrument()
            if way == "with":
                instrumentor.instrument(skip_dep_check=True)
            samples[way].append(_timed(train, STEPS))
    output.write_text(json.dumps(samples))


def main() -> int:
    """Run the program, print, and compare with the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument(PROGRAM, type=Path)
    options, _ = parser.parse_known_args()
    if options.program:
        program(options.rounds, options.program)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "samples.json"
        arguments = [__file__, PROGRAM, output, "--rounds", str(options.rounds)]
        # An error of ours would be swallowed, and the figure that of its handling.
        instrumented(*arguments, folder=folder, **{RAISE_ENVIRONMENT_VARIABLE: "1"})
        samples = json.loads(output.read_text())
    rounds = list(zip(samples["with"], samples["without"], strict=True))
    added = bootstrap(rounds, lambda drawn: min(one for one, _ in drawn) - min(other for _, other in drawn))
    figures = {
        # The fastest block: other work on the machine only adds to one.
        "us of CPU per step, warm": {**bootstrap(samples["warm"], min), "limit": 50},
        "us of CPU added to a step of a small model": added,
    }
    return finish("guessed_step", figures, samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
