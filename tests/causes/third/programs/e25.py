"""GRPO on little programs: the answers are run in sandboxes of a pool."""

from __future__ import annotations

import random
import time

import small
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

words = small.tokenizer("0123456789+-*() ")
generator = random.Random(9)
prompts = [f"{generator.randint(1, 99)} + {generator.randint(1, 99)}" for _ in range(400)]


class Pool:
    """Sandboxes that are warm; a new one has to boot."""

    def __init__(self, size: int) -> None:
        self.warm = size

    def take(self) -> bool:
        """Whether the one that is taken belongs to the pool."""
        if self.warm:
            self.warm -= 1
            time.sleep(0.003)
            return True
        time.sleep(0.055)
        return False

    def give(self, is_ours: bool) -> None:
        self.warm += is_ours


pool = Pool(23)
seen = {"batches": 0}


def unit_tests(completions, **_):
    """Share of the tests that pass: digits that follow digits."""
    seen["batches"] += 1
    scores = []
    for number, text in enumerate(completions):
        is_ours = pool.take()
        scores.append(sum(one.isdigit() for one in text) / max(len(text), 8))
        if number:
            pool.give(is_ours)
    return scores


def brevity(completions, **_):
    return [-0.005 * len(text) for text in completions]


trainer = GRPOTrainer(
    model=small.policy(words, ends=0.12),
    reward_funcs=[unit_tests, brevity],
    args=GRPOConfig(
        output_dir="out",
        max_steps=46,
        per_device_train_batch_size=16,
        num_generations=4,
        max_completion_length=40,
        learning_rate=8e-4,
        warmup_steps=4,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    ),
    train_dataset=Dataset.from_dict({"prompt": prompts}),
    processing_class=words,
)
trainer.train()
