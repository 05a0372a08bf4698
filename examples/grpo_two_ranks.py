"""Train a tiny model with GRPO on two CPU processes; nothing is downloaded.

    torchrun --nproc-per-node=2 examples/grpo_two_ranks.py [--steps 12] [--output-dir DIR]

Two reward functions, a KL penalty against a reference model, one evaluation and one checkpoint on the way. The model
is random, so the rewards measure form (length, digits), not arithmetic.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch.distributed as dist
from datasets import Dataset
from tiny_model import build
from trl import GRPOConfig, GRPOTrainer


def length_reward(completions: list[list[dict[str, str]]], **_: object) -> list[float]:
    """1 for an answer of 12 characters, less the further it is from that."""
    return [1.0 - min(abs(12 - len(completion[0]["content"])) / 24, 1.0) for completion in completions]


def digit_reward(completions: list[list[dict[str, str]]], **_: object) -> list[float]:
    """Return the share of characters that are digits."""
    contents = [completion[0]["content"] for completion in completions]
    return [sum(character.isdigit() for character in content) / max(len(content), 1) for content in contents]


def additions(first: int, count: int) -> Dataset:
    """`count` questions like "What is 3 + 4?"."""
    numbers = range(first, first + count)
    return Dataset.from_list([{"prompt": [{"role": "user", "content": f"What is {n} + {n + 1}?"}]} for n in numbers])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12, help="optimizer steps (default 12)")
    parser.add_argument("--output-dir", help="where model and checkpoint go (default: a folder that is removed)")
    return parser.parse_args()


def train(steps: int, output_dir: Path) -> GRPOTrainer:
    # The reference model for the KL penalty is loaded from the same path, which is why the model must be on disk.
    model = str(build(output_dir / "model"))
    arguments = GRPOConfig(
        output_dir=str(output_dir / "checkpoints"),
        max_steps=steps,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        num_generations=4,
        max_completion_length=24,
        learning_rate=1e-3,
        beta=0.04,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=max(steps // 2, 1),
        per_device_eval_batch_size=4,
        save_strategy="steps",
        save_steps=steps,
        report_to="none",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        seed=7,
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[length_reward, digit_reward],
        args=arguments,
        train_dataset=additions(0, 64),
        eval_dataset=additions(1000, 2),
    )
    trainer.train()
    return trainer


def end_process_group() -> None:
    """Leave the process group in order: torch otherwise aborts some processes at exit (pytorch/pytorch#190489)."""
    # The trainer refers to itself. A model that outlives the group takes the group along, which can block for good.
    gc.collect()
    if dist.is_initialized():
        dist.destroy_process_group()


def main() -> None:
    options = parse_arguments()
    if options.output_dir:
        train(options.steps, Path(options.output_dir))
        end_process_group()
        return
    # All ranks must agree on the folder, so it is named after the process that started them.
    output_dir = Path(tempfile.gettempdir()) / f"grpo-two-ranks-{os.getppid()}"
    try:
        train(options.steps, output_dir)
        end_process_group()
    finally:
        if os.environ.get("RANK", "0") == "0":
            shutil.rmtree(output_dir, ignore_errors=True)


if __name__ == "__main__":
    main()
