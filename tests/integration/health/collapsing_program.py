"""Trains a tiny model with a learning rate that ruins it.

python collapsing_program.py STEPS DIRECTORY
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from datasets import Dataset
from tiny_model import build
from trl import GRPOConfig, GRPOTrainer

torch.set_num_threads(1)
#: Steps of the warm-up of the learning rate.
WARM_UP = 6


def share_of_digits(completions, **_):
    return [sum(one.isdigit() for one in text) / max(len(text), 1) for text in completions]


def main(steps, directory):
    questions = Dataset.from_list([{"prompt": f"What is {number} + {number}?"} for number in range(64)])
    arguments = GRPOConfig(
        output_dir=str(directory / "checkpoints"),
        max_steps=steps,
        per_device_train_batch_size=16,
        num_generations=8,
        max_completion_length=8,
        learning_rate=0.03,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=WARM_UP,
        beta=0.001,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        seed=7,
    )
    model = str(build(directory / "model"))
    trainer = GRPOTrainer(model=model, reward_funcs=[share_of_digits], args=arguments, train_dataset=questions)
    trainer.train()
    del trainer
    gc.collect()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
