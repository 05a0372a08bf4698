"""CPU time that observing adds to a step of a GRPO training, beside what people use for it.

    python benchmarks/beside_trackers.py [--rounds 4] [--steps 30] [--pause SECONDS] [--output FILE]

One program in fresh processes that take turns: plain, under ``opentelemetry-instrument`` with files, and with each of
the trackers that the trainer itself reports to, all offline. Counted from step to step is the CPU time of all threads
of the process, and that of its helper processes beside it. Steps do the same work: 128 samples of 12 tokens.
``--pause`` makes them longer without work, for what is spent by time and not by steps. The programs run in an
environment of their own below the cache folder, since some trackers need packages that that of the tests has not.
"""

from __future__ import annotations

import argparse
import hashlib
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

from figures import bootstrap, finish
from grpo_environment import environment

ROOT = Path(__file__).parents[1]
WARM_UP = 6
PACKAGES = (
    "mlflow==3.17.2", "tensorboard==2.21.0", "torch==2.13.0", "trackio==0.43.0", "transformers==5.23.0", "trl==1.16.0",
    "wandb==0.29.0",
)  # fmt: skip
PLAIN, OURS = "plain", "otel-rl"
PROFILER = "torch.profiler, one step in ten"
WAYS = (PLAIN, OURS, "wandb", "tensorboard", "mlflow", "trackio", PROFILER)
#: In the environment of a process and of its helpers, wherever these hang in the tree.
MARK = "OTEL_BENCHMARK_OF"
_TICKS = os.sysconf("SC_CLK_TCK")


def helpers(mark: str) -> float:
    """Return the CPU seconds of the other living processes with ``mark`` in their environment."""
    seconds = 0.0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                user, system = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
                seconds += (int(user) + int(system)) / _TICKS
        except OSError:
            continue  # it has ended
    return seconds


def program(way: str, steps: int, pause: float, output: Path) -> None:
    """Train, and write the CPU seconds of each step and those of the helper processes."""
    import transformers
    from grpo_program import train

    profiler = _profiler(output.parent) if way == PROFILER else None
    readings: list[float] = []
    of_helpers: list[float] = []

    class Counting(transformers.TrainerCallback):
        def on_step_end(self, _: object, state: Any, *__: object, **___: object) -> None:
            if profiler is not None:
                profiler.step()
            time.sleep(pause)
            if state.global_step in (WARM_UP, WARM_UP + steps):
                of_helpers.append(helpers(os.environ[MARK]))
            if state.global_step >= WARM_UP:
                readings.append(time.process_time())

    if profiler is not None:
        profiler.start()
    train(WARM_UP + steps, Counting(), report_to="none" if way in (PLAIN, OURS, PROFILER) else way, tokens=12, passes=1)
    output.write_text(
        json.dumps(
            {
                "steps": [after - before for before, after in itertools.pairwise(readings)],
                "helpers": (of_helpers[1] - of_helpers[0]) / steps,
            }
        )
    )


def _profiler(folder: Path) -> Any:
    import torch

    return torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=8, warmup=1, active=1),
        on_trace_ready=lambda profile: profile.export_chrome_trace(str(folder / "trace.json")),
    )


def interpreter() -> Path:
    """Return the python of the environment with all trackers; makes it where it is missing."""
    cache = Path(os.environ.get("OTEL_RL_CACHE_DIR", Path.home() / ".cache" / "otel-rl"))
    folder = cache / f"beside-trackers-{hashlib.sha256(' '.join((*PACKAGES, str(ROOT))).encode()).hexdigest()[:16]}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"installing the trackers into {folder}", file=sys.stderr)
        uv = os.environ.get("UV", "uv")
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", python, *PACKAGES, "--editable", ROOT]
        subprocess.run(install, check=True)
        (folder / "complete").touch()
    return python


def run(python: Path, way: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what one process of ``way`` measured."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        variables = {
            **environment(str(folder / "data")),
            MARK: name,
            "WANDB_MODE": "offline",
            "WANDB_SILENT": "true",
            "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
            "TRACKIO_DIR": str(folder / "trackio"),
            "TENSORBOARD_LOGGING_DIR": str(folder / "tensorboard"),
        }
        instrument = [python.with_name("opentelemetry-instrument")] if way == OURS else []
        output = folder / "samples.json"
        arguments = ["--program", way, "--steps", str(options.steps), "--pause", str(options.pause)]
        done = subprocess.run(
            [*instrument, python, __file__, *arguments, "--samples", output],
            env=variables, cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{way}: {done.stderr[-3000:]}")
        return json.loads(output.read_text())


def figures_of(samples: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return what each way adds to a step, in ms."""
    steps = {way: [step * 1e3 for one in runs for step in one["steps"]] for way, runs in samples.items()}
    figures: dict[str, Any] = {"ms of CPU per step, plain": bootstrap(steps[PLAIN], statistics.fmean)}
    for way in WAYS[1:]:
        pairs = list(zip(steps[way], steps[PLAIN], strict=True))
        figures[f"ms added per step, {way}"] = bootstrap(
            pairs, lambda drawn: statistics.fmean(one for one, _ in drawn) - statistics.fmean(two for _, two in drawn)
        )
        beside = statistics.fmean(one["helpers"] * 1e3 for one in samples[way])
        figures[f"ms in helper processes per step, {way}"] = {"value": round(beside, 3)}
    return figures


def main() -> int:
    """Run all ways in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=30, help="counted steps of each process")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds without work at the end of each step")
    parser.add_argument("--program", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--samples", type=Path, help=argparse.SUPPRESS)
    options, _ = parser.parse_known_args()
    if options.program:
        program(options.program, options.steps, options.pause, options.samples)
        return 0
    python = interpreter()
    samples: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for number in range(options.rounds):
        for way in WAYS if number % 2 else reversed(WAYS):
            print(f"round {number + 1} of {options.rounds}: {way}", file=sys.stderr, flush=True)
            samples[way].append(run(python, way, options))
    return finish("beside_trackers", figures_of(samples), samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
