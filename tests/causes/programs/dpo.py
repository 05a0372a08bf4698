"""DPO with TRL on a tiny model: answers of digits are preferred. `python dpo.py MODEL [--steps N] ...`."""

from __future__ import annotations

import random

from bugs import has, wait
from datasets import Dataset
from trl import DPOConfig, DPOTrainer
from trl_common import DIGITS, LETTERS, answer, callbacks, parser, settings


def pairs(count: int, seed: int) -> Dataset:
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        good, bad = answer(DIGITS + LETTERS[:2], chance), answer(LETTERS + DIGITS[:3], chance)
        rows.append({"prompt": f"What is {number % 100} + {number % 100}?", "chosen": good, "rejected": bad})
    return Dataset.from_list(rows)


class Trainer(DPOTrainer):
    """Saves what the analysis needs beside the model."""

    def get_batch_samples(self, *args, **kwargs):
        batches, count = super().get_batch_samples(*args, **kwargs)
        if has("swapped", since=24):
            batches = [swap(batch) for batch in batches]
        return batches, count

    def save_model(self, *args, **kwargs):
        super().save_model(*args, **kwargs)
        if has("slow_storage", since=25):
            wait(1.6)

    def evaluate(self, *args, **kwargs):
        if has("eval_twice", since=20):
            for _ in range(4):
                super().evaluate(*args, **kwargs)
        return super().evaluate(*args, **kwargs)


def swap(batch: dict) -> dict:
    """Chosen and rejected are the two halves of a batch."""
    return {key: value.roll(len(value) // 2, 0) if hasattr(value, "roll") else value for key, value in batch.items()}


def main() -> None:
    options = parser().parse_args()
    trainer = Trainer(
        model=options.model,
        args=DPOConfig(beta=0.1, max_length=128, **settings(options)),
        train_dataset=pairs(400, 1),
        eval_dataset=pairs(24, 2) if options.eval_every else None,
        callbacks=callbacks(options),
    )
    trainer.train(resume_from_checkpoint=options.resume or None)


if __name__ == "__main__":
    main()
