"""DPO on pairs from two exports, one after the other."""

from __future__ import annotations

import random
import time

import small
from datasets import Dataset
from transformers import TrainerCallback
from trl import DPOConfig, DPOTrainer

words = small.tokenizer("abcdefghijklmnopqrst .")
generator = random.Random(6)
BATCH, FIRST = 8, 29


def reply(letters: str) -> str:
    return "".join(generator.choices(letters, k=generator.randint(10, 24))) + "."


def rows(number: int, columns: tuple[str, str]):
    """Pairs of an export: the columns hold the better and the worse reply."""
    for _ in range(number):
        row = {"better": reply("abcdefghijkl"), "worse": reply("ijklmnopqrst")}
        row["text"], row["other"] = row["better"], row["worse"]
        yield {
            "prompt": "".join(generator.choices("abcdefghijklmnopqrst ", k=12)),
            "chosen": row[columns[0]],
            "rejected": row[columns[1]],
        }


class Pace(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        time.sleep(0.08)


pairs = [*rows(BATCH * FIRST, ("better", "worse")), *rows(BATCH * 25, ("text", "better"))]
small.policy(words).save_pretrained("model")
trainer = DPOTrainer(
    model="model",
    args=DPOConfig(
        output_dir="out",
        max_steps=52,
        per_device_train_batch_size=BATCH,
        learning_rate=5e-4,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=5,
        beta=0.1,
        train_sampling_strategy="sequential",
        logging_steps=1,
        report_to="tensorboard",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    ),
    train_dataset=Dataset.from_list(pairs),
    processing_class=words,
    callbacks=[Pace()],
)
trainer.train()
