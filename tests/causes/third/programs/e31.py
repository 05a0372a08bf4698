"""SFT on samples of very uneven lengths, with warm-up, cosine and checkpoints."""

from __future__ import annotations

import random
import time

import small
from datasets import Dataset
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer

words = small.tokenizer("abcdefghijklmnopqrst .=")
generator = random.Random(18)


def sample() -> dict[str, str]:
    word = "".join(generator.choices("abcdefghijklmnopqrst", k=generator.randint(4, 10)))
    times = min(int(generator.lognormvariate(0.6, 0.8)) + 1, 16)
    return {"prompt": word + "=", "completion": word * times + "."}


class Pace(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        time.sleep(0.8 if state.global_step == 0 else 0.1)


trainer = SFTTrainer(
    model=small.policy(words),
    args=SFTConfig(
        output_dir="out",
        max_steps=64,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=16,
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        warmup_steps=8,
        max_length=192,
        eval_strategy="steps",
        eval_steps=16,
        logging_steps=1,
        report_to="none",
        save_strategy="steps",
        save_steps=16,
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    ),
    train_dataset=Dataset.from_list([sample() for _ in range(520)]),
    eval_dataset=Dataset.from_list([sample() for _ in range(32)]),
    processing_class=words,
    callbacks=[Pace()],
)
trainer.train()
