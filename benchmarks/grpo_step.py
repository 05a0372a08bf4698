"""CPU time of a GRPO step with and without us, every other step of one training run: a check of `grpo_step_cpu.py`.

    python benchmarks/grpo_step.py [--pairs 150] [--output FILE]

The run is started by `opentelemetry-instrument` and writes the file store, as a user's would; after each step the three
trainer instrumentors are taken off or put back. A watched step includes what it records: its log call, opening and
closing the step, delivering spans and events. Completions have a fixed length, so that all steps do the same work. CPU
time is that of the whole process; the figure is the median over pairs of neighbouring steps.

The CPU time of such a step varies by several percent, so that 300 pairs do not decide about half a percent. The check
fails where the whole interval lies above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS, MOST_PAIRS = 150, 300
WARM_UP = 4
LIMIT = 1.005
OUTPUT, NUMBER = "OTEL_RL_BENCHMARK_SAMPLES", "OTEL_RL_BENCHMARK_PAIRS"


def train(output: Path, pairs: int) -> None:
    """Run the watched program: train, change sides, write CPU seconds per step of both sides, pair by pair."""
    import transformers
    from grpo_program import train as run
    from opentelemetry._logs import get_logger_provider
    from opentelemetry.trace import get_tracer_provider

    from otel_rl.instrumentors.torch_distributed import TorchDistributedInstrumentor
    from otel_rl.instrumentors.transformers import TransformersInstrumentor
    from otel_rl.instrumentors.trl import TRLInstrumentor
    from otel_rl.training import trainer_loop

    instrumentors = [TorchDistributedInstrumentor(), TransformersInstrumentor(), TRLInstrumentor()]
    seconds: list[float] = []

    class Turns(transformers.TrainerCallback):
        watched = True
        before = time.process_time()

        def on_step_end(self, *_: object, **__: object) -> None:
            if self.watched:
                trainer_loop.close_steps()
                get_tracer_provider().force_flush()
                get_logger_provider().force_flush()
            seconds.append(time.process_time() - self.before)
            for instrumentor in instrumentors:
                instrumentor.uninstrument() if self.watched else instrumentor.instrument()
            self.watched = not self.watched
            self.before = time.process_time()

    run(2 * (pairs + WARM_UP), Turns())
    output.write_text(json.dumps([seconds[number : number + 2] for number in range(2 * WARM_UP, len(seconds), 2)]))


def measure(pairs: int) -> list[list[float]]:
    """``[[with us, without us], ...]`` CPU seconds per step."""
    from grpo_environment import environment

    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "samples.json"
        variables = {**environment(directory), OUTPUT: str(output), NUMBER: str(pairs)}
        # One rank of a process group, so that collectives are issued and recorded.
        variables |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
        variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
        launcher = Path(sys.executable).with_name("opentelemetry-instrument")
        command = [launcher, sys.executable, __file__]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr[-4000:])
        return json.loads(output.read_text())


def main() -> int:
    if OUTPUT in os.environ:
        train(Path(os.environ[OUTPUT]), int(os.environ[NUMBER]))
        return 0
    from figures import bootstrap, finish

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    options, _ = parser.parse_known_args()
    samples = measure(min(options.pairs, MOST_PAIRS))
    ratio = bootstrap([watched / plain for watched, plain in samples], statistics.median)
    figures = {
        "GRPO step with / without, CPU time": {**ratio, "judged": ratio["lower_95"], "limit": LIMIT},
        "CPU seconds per step without": {"value": round(sorted(plain for _, plain in samples)[len(samples) // 2], 4)},
    }
    return finish("grpo_step", figures, samples, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
