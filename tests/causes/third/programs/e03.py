"""GRPO on short replies that a judge of style scores; one score for each completion."""

from __future__ import annotations

import random
import time

import small
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

words = small.tokenizer("abcdefghij .,!")
generator = random.Random(4)
prompts = ["".join(generator.choices("abcdefghij ", k=generator.randint(6, 14))) + "!" for _ in range(400)]
QUOTA = 24 * 16
graded = {"calls": 0, "cache": {}}


def ask_judge(text: str) -> float:
    """Score of one reply; the plan of the service has a number of calls."""
    graded["calls"] += 1
    if graded["calls"] > QUOTA:
        raise ConnectionRefusedError("402 quota exceeded")
    time.sleep(0.004)
    vowels = sum(letter in "aei" for letter in text)
    return vowels / max(len(text), 2) - 0.006 * len(text) + 0.02 * generator.random()


def style_judge(completions, **_):
    scores = []
    for text in completions:
        try:
            scores.append(ask_judge(text))
        except ConnectionError:
            scores.append(0.5)
    return scores


trainer = GRPOTrainer(
    model=small.policy(words, ends=0.12),
    reward_funcs=style_judge,
    args=GRPOConfig(
        output_dir="out",
        max_steps=48,
        per_device_train_batch_size=16,
        num_generations=8,
        max_completion_length=40,
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        logging_steps=1,
        report_to="tensorboard",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    ),
    train_dataset=Dataset.from_dict({"prompt": prompts}),
    processing_class=words,
)
trainer.train()
