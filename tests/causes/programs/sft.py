"""Supervised fine-tuning with TRL on a tiny model, loader with workers: `python sft.py MODEL ...`."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from bugs import BUG, has, wait
from datasets import Dataset
from torch.utils.data import get_worker_info
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
from trl_common import DIGITS, answer, callbacks, parser, settings


def conversations(count: int, seed: int) -> Dataset:
    chance = random.Random(seed)
    return Dataset.from_list(
        [
            {"prompt": f"What is {number % 100} + {number % 100}?", "completion": answer(DIGITS, chance)}
            for number in range(count)
        ]
    )


class Collator:
    """Pads a batch, and reads its pictures from the disk of the worker."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.batches = 0

    def __call__(self, rows):
        self.batches += 1
        wait(0.02)
        worker = get_worker_info()
        if BUG == "worker_slow" and worker is not None and worker.id == 1 and self.batches > 10:
            wait(0.7, 0.1)
        batch = self.inner(rows)
        if BUG == "masked_labels" and has("masked_labels", since=22):
            # The template of the new shard has no answers.
            batch["labels"][len(rows) // 4 :] = -100
        return batch


class Trainer(SFTTrainer):
    """Freezes the body from a step on, or resumes."""

    def training_step(self, model, *args, **kwargs):
        if has("frozen_body", since=20):
            for name, parameter in model.named_parameters():
                parameter.requires_grad_("norm" in name)
                if "norm" not in name:
                    parameter.grad = None
        return super().training_step(model, *args, **kwargs)

    def _load_optimizer_and_scheduler(self, checkpoint):
        if BUG != "resume_fresh":
            super()._load_optimizer_and_scheduler(checkpoint)


def main() -> None:
    options = parser().parse_args()
    trainer = Trainer(
        model=AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(options.model),
        args=SFTConfig(max_length=64, **settings(options)),
        train_dataset=conversations(600, 1),
        eval_dataset=conversations(24, 2) if options.eval_every else None,
        callbacks=callbacks(options),
    )
    trainer.data_collator = Collator(trainer.data_collator)
    resume = options.resume and Path("checkpoints").is_dir()
    trainer.train(resume_from_checkpoint=resume or None)


if __name__ == "__main__":
    main()
