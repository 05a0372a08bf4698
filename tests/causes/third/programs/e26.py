"""GRPO with a curriculum: the prompts get harder in three stages, as is printed when one begins."""

from __future__ import annotations

import random
import time

import small
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

words = small.tokenizer("abcdefghij")
generator = random.Random(22)
BATCH, GROUP, STAGE = 16, 4, 17
rows = []
for stage, goal in enumerate(("abcdef", "abcde", "abcd")):
    rows += [
        {"prompt": "".join(generator.choices("abcdefghij", k=6 + 3 * stage)), "goal": goal, "stage": stage + 1}
        for _ in range(STAGE * BATCH // GROUP)
    ]
seen = {"stage": 0}


def in_goal(completions, goal, stage, **_):
    """Share of letters that are asked for, less a little for length; later stages ask for fewer letters."""
    if max(stage) > seen["stage"]:
        seen["stage"] = max(stage)
        print(f"curriculum: stage {seen['stage']}", flush=True)
    time.sleep(0.02 + 0.02 * generator.random())
    pairs = zip(completions, goal, strict=True)
    return [sum(one in letters for one in text) / max(len(text), 2) - 0.008 * len(text) for text, letters in pairs]


trainer = GRPOTrainer(
    model=small.policy(words, ends=0.12),
    reward_funcs=in_goal,
    args=GRPOConfig(
        output_dir="out",
        max_steps=3 * STAGE,
        per_device_train_batch_size=BATCH,
        num_generations=GROUP,
        max_completion_length=40,
        learning_rate=8e-4,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=5,
        shuffle_dataset=False,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    ),
    train_dataset=Dataset.from_list(rows),
    processing_class=words,
)
trainer.train()
