"""CPU time that guessing adds to a step of a plain PyTorch loop, on the thread that trains.

    python benchmarks/guessed_step.py [--rounds 60] [--output FILE]

A program under ``opentelemetry-instrument`` trains a small model over a data loader: batch, forward, backward, AdamW.
Blocks of steps with the instrumentor of ``torch`` and without it alternate in turning order, all else that follows
steps is on. The figure is the difference of the fastest blocks of each way, by the CPU time of the thread: other work
on the machine only adds to a block. The bounds are a bootstrap over rounds. What the I/O threads record later is not in
it; between two blocks the program waits until they have.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from figures import bootstrap, finish
from torch.utils.data import DataLoader, TensorDataset

import otel_rl
from otel_rl.instrumentors.torch_training import TorchTrainingInstrumentor

#: Steps of a block, and of the first one, which does not count.
STEPS, WARM_UP = 10, 200
#: Seconds that the I/O threads get to record a block.
RECORDING = 60
#: Option of the program: where its samples go.
PROGRAM = "--program"


def _block(epochs: list[object], model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> float:
    """Return microseconds of CPU of a step."""
    began = time.thread_time_ns()
    for (inputs,), _ in zip(epochs[0], range(steps), strict=False):
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return (time.thread_time_ns() - began) / steps / 1000


def program(rounds: int, output: Path) -> None:
    """Train, and write the samples of both ways."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = [DataLoader(TensorDataset(torch.randn(4 * WARM_UP, 16)), batch_size=4)]
    instrumentor = TorchTrainingInstrumentor()
    _block(loader, model, optimizer, WARM_UP)
    samples: dict[str, list[float]] = {"on": [], "off": []}
    for number in range(rounds):
        for way in ("on", "off") if number % 2 else ("off", "on"):
            if instrumentor.is_instrumented_by_opentelemetry:
                instrumentor.uninstrument()
            if way == "on":
                instrumentor.instrument(skip_dep_check=True)
            otel_rl.flush(RECORDING)
            _block(loader, model, optimizer, STEPS)
            samples[way].append(_block(loader, model, optimizer, STEPS))
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
        command = [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, __file__]
        subprocess.run([*command, PROGRAM, output, "--rounds", str(options.rounds)], cwd=folder, check=True)
        samples = json.loads(output.read_text())
    rounds = list(zip(samples["on"], samples["off"], strict=True))
    figure = bootstrap(rounds, lambda drawn: min(on for on, _ in drawn) - min(off for _, off in drawn))
    figures = {
        "us of CPU added to a step": {**figure, "judged": figure["value"], "limit": 50},
        "us of CPU of the step alone": bootstrap(samples["off"], min),
    }
    return finish("guessed_step", figures, samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
