"""The GRPO program of the benchmarks: the trainer of the example, with steps that all do the same work."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_two_ranks import additions, digit_reward, length_reward
from tiny_model import build
from trl import GRPOConfig, GRPOTrainer

if TYPE_CHECKING:
    from transformers import TrainerCallback


def train(steps: int, callback: TrainerCallback) -> None:
    """Sample 128 completions of 96 tokens and train on them in 8 micro-batches, ``steps`` times."""
    with tempfile.TemporaryDirectory() as directory:
        trainer = GRPOTrainer(
            model=str(build(Path(directory) / "model")),
            reward_funcs=[length_reward, digit_reward],
            train_dataset=additions(0, 64),
            callbacks=[callback],
            args=GRPOConfig(
                output_dir=directory,
                max_steps=steps,
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
