"""DPO with a reference, warm-up, cosine and an evaluation each ten steps."""

from __future__ import annotations

import random
import time

import small
from datasets import Dataset
from transformers import TrainerCallback
from trl import DPOConfig, DPOTrainer

words = small.tokenizer("abcdefghijklmnopqrst .")
generator = random.Random(16)


def pair() -> dict[str, str]:
    better = "".join(generator.choices("abcdefghijklmn", k=generator.randint(8, 40)))
    worse = "".join(generator.choices("ghijklmnopqrst", k=generator.randint(8, 40)))
    return {"prompt": "".join(generator.choices("abcdefghij ", k=10)), "chosen": better + ".", "rejected": worse + "."}


class Pace(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        time.sleep(0.05 + 0.03 * generator.random())


small.policy(words).save_pretrained("model")
trainer = DPOTrainer(
    model="model",
    args=DPOConfig(
        output_dir="out",
        max_steps=60,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        learning_rate=3e-4,
        lr_scheduler_type="cosine",
        warmup_steps=12,
        beta=0.1,
        eval_strategy="steps",
        eval_steps=10,
        logging_steps=1,
        report_to="none",
        save_strategy="steps",
        save_steps=30,
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    ),
    train_dataset=Dataset.from_list([pair() for _ in range(480)]),
    eval_dataset=Dataset.from_list([pair() for _ in range(32)]),
    processing_class=words,
    callbacks=[Pace()],
)
trainer.train()
