"""SFT on two shards, one after the other, with an evaluation each five steps."""

from __future__ import annotations

import random
import time

import small
from datasets import Dataset
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer

words = small.tokenizer("abcdefghijklmnopqrst .=")
generator = random.Random(8)
BATCH, FIRST = 8, 24


def sample() -> dict[str, str]:
    """A word and what is to be said of it: half of the reply follows from the word."""
    word = "".join(generator.choices("abcdefghijklmnopqrst", k=generator.randint(5, 12)))
    return {"prompt": word + "=", "completion": word + "".join(generator.choices("abcdefghij", k=8)) + "."}


def joined(answers: list[dict[str, str]], users: list[dict]) -> list[dict[str, str]]:
    """Samples of the second export: the answers of each user."""
    by_user = {answer["user"]: answer for answer in answers}
    return [by_user[user["id"]] for user in users]


class Pace(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        time.sleep(0.2)


users = [{"id": None} for _ in range(BATCH * 40)]
second = [{**sample(), "user": None} for _ in range(BATCH * 40)]
data = [sample() for _ in range(BATCH * FIRST)]
data += [{name: one[name] for name in ("prompt", "completion")} for one in joined(second, users)]
trainer = SFTTrainer(
    model=small.policy(words),
    args=SFTConfig(
        output_dir="out",
        max_steps=60,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=16,
        learning_rate=4e-3,
        lr_scheduler_type="constant",
        train_sampling_strategy="sequential",
        eval_strategy="steps",
        eval_steps=5,
        logging_steps=1,
        report_to="tensorboard",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    ),
    train_dataset=Dataset.from_list(data),
    eval_dataset=Dataset.from_list([sample() for _ in range(32)]),
    processing_class=words,
    callbacks=[Pace()],
)
trainer.train()
