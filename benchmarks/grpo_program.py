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


def train(steps: int, callback: TrainerCallback, *, report_to: str = "none", tokens: int = 96, passes: int = 8) -> None:
    """Sample 128 completions of ``tokens`` and train on them in so many ``passes``, ``steps`` times."""
    with tempfile.TemporaryDirectory() as directory:
        trainer = GRPOTrainer(
            model=str(build(Path(directory) / "model")),
            reward_funcs=[length_reward, digit_reward],
            train_dataset=additions(0, 64),
            callbacks=[callback],
            args=GRPOConfig(
                output_dir=directory,
                max_steps=steps,
                per_device_train_batch_size=128 // passes,
                gradient_accumulation_steps=passes,
                num_generations=8,
                max_completion_length=tokens,
                generation_kwargs={"min_new_tokens": tokens},
                beta=0.04,
                logging_steps=1,
                save_strategy="no",
                report_to=report_to,
                use_cpu=True,
                bf16=False,
                disable_tqdm=True,
            ),
        )
        trainer.train()
