"""GRPO on a task that is soon learned: replies of digits; evaluated and saved now and then."""

from __future__ import annotations

import random
import time

import small
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

words = small.tokenizer("0123456789abcdef")
generator = random.Random(12)


def prompts(number: int) -> Dataset:
    return Dataset.from_dict({"prompt": ["".join(generator.choices("abcdef", k=8)) for _ in range(number)]})


def is_number(completions, **_):
    """1.0 where at least half of the reply is digits and it is not too long, else their share."""
    time.sleep(0.03)
    shares = [sum(one.isdigit() for one in text) / max(len(text), 1) for text in completions]
    pairs = zip(completions, shares, strict=True)
    return [0.0 if len(text) > 28 else 1.0 if share >= 0.5 else share for text, share in pairs]


trainer = GRPOTrainer(
    model=small.policy(words, ends=0.12),
    reward_funcs=is_number,
    args=GRPOConfig(
        output_dir="out",
        max_steps=46,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=16,
        num_generations=8,
        max_completion_length=40,
        learning_rate=6e-3,
        lr_scheduler_type="cosine",
        warmup_steps=6,
        beta=0.0,
        eval_strategy="steps",
        eval_steps=20,
        logging_steps=1,
        report_to="tensorboard",
        save_strategy="steps",
        save_steps=20,
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    ),
    train_dataset=prompts(400),
    eval_dataset=prompts(4),
    processing_class=words,
)
trainer.train()
