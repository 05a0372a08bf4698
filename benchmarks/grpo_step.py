"""CPU time of a GRPO step with and without us, every other step of one training run.

    python benchmarks/grpo_step.py [--output FILE]

The run is started by `opentelemetry-instrument` and writes the file store, as a user's would; after each step the three
trainer instrumentors are taken off or put back. A watched step includes what it records: its log call, opening and
closing the step, delivering spans and events. Completions have a fixed length, so that all steps do the same work. CPU
time is that of the whole process; the figure is the median over pairs of neighbouring steps.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = 120
WARM_UP = 4
LIMIT = 1.005
ROLE = "OTEL_RL_BENCHMARK_SAMPLES"


def train(output: Path) -> None:
    """The watched program: trains, changes sides, writes CPU seconds per step of both sides, pair by pair."""
    import transformers
    from grpo_two_ranks import additions, digit_reward, length_reward
    from opentelemetry._logs import get_logger_provider
    from opentelemetry.trace import get_tracer_provider
    from tiny_model import build
    from trl import GRPOConfig, GRPOTrainer

    from otel_rl.instrumentors.torch_distributed import TorchDistributedInstrumentor
    from otel_rl.instrumentors.transformers import TransformersInstrumentor
    from otel_rl.instrumentors.trl import TRLInstrumentor
    from otel_rl.training.trace import trace

    instrumentors = [TorchDistributedInstrumentor(), TransformersInstrumentor(), TRLInstrumentor()]
    seconds: list[float] = []

    class Turns(transformers.TrainerCallback):
        watched = True
        before = time.process_time()

        def on_step_end(self, *_: object, **__: object) -> None:
            if self.watched:
                trace.finish_step()
                get_tracer_provider().force_flush()
                get_logger_provider().force_flush()
            seconds.append(time.process_time() - self.before)
            for instrumentor in instrumentors:
                instrumentor.uninstrument() if self.watched else instrumentor.instrument()
            self.watched = not self.watched
            self.before = time.process_time()

    with tempfile.TemporaryDirectory() as directory:
        trainer = GRPOTrainer(
            model=str(build(Path(directory) / "model")),
            reward_funcs=[length_reward, digit_reward],
            train_dataset=additions(0, 64),
            callbacks=[Turns()],
            args=GRPOConfig(
                output_dir=directory,
                max_steps=2 * (PAIRS + WARM_UP),
                per_device_train_batch_size=16,
                gradient_accumulation_steps=8,
                num_generations=8,
                max_completion_length=96,
                generation_kwargs={"min_new_tokens": 96},
                beta=0.04,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                bf16=False,
                disable_tqdm=True,
            ),
        )
        trainer.train()
    pairs = [seconds[number : number + 2] for number in range(2 * WARM_UP, len(seconds), 2)]
    output.write_text(json.dumps(pairs))


def measure() -> list[list[float]]:
    """``[[with us, without us], ...]`` CPU seconds per step."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "samples.json"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
        environment |= {"OTEL_RL_DATA_DIR": directory, "OTEL_RL_QUIET": "1", "OMP_NUM_THREADS": "1", ROLE: str(output)}
        # One rank of a process group, so that collectives are issued and recorded.
        environment |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "HF_HUB_OFFLINE": "1"}
        environment["PYTHONPATH"] = str(Path(__file__).parents[1] / "examples")
        launcher = Path(sys.executable).with_name("opentelemetry-instrument")
        command = [launcher, sys.executable, __file__]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.loads(output.read_text())


def main() -> int:
    if ROLE in os.environ:
        train(Path(os.environ[ROLE]))
        return 0
    from figures import bootstrap, finish

    samples = measure()
    ratio = bootstrap([watched / plain for watched, plain in samples], statistics.median)
    figures = {
        "GRPO step with / without, CPU time": {**ratio, "judged": ratio["upper_95"], "limit": LIMIT},
        "CPU seconds per step without": {"value": round(sorted(plain for _, plain in samples)[len(samples) // 2], 4)},
    }
    return finish("grpo_step", figures, samples, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
