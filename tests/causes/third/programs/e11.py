"""Reward model on pairs, with embeddings of the documents that a collator reads for each batch."""

from __future__ import annotations

import random
import time

import small
import torch
from datasets import Dataset
from transformers import LlamaForSequenceClassification
from trl import RewardConfig, RewardTrainer
from trl.trainer.reward_trainer import DataCollatorForPreference

words = small.tokenizer("abcdefghijklmnopqrst .")
generator = random.Random(11)
BATCH, SHARD = 8, 23


def pair() -> dict[str, str]:
    start = "".join(generator.choices("abcdefghij ", k=10))
    better = "".join(generator.choices("abcdefghijklmno", k=generator.randint(10, 30)))
    worse = "".join(generator.choices("fghijklmnopqrst", k=generator.randint(10, 30)))
    return {"chosen": start + better + ".", "rejected": start + worse + "."}


class WithDocuments:
    """Collates a batch and reads its documents: the first shards are on the disk here, the others are not."""

    def __init__(self, collate) -> None:
        self.collate, self.batches = collate, 0

    def __call__(self, examples):
        self.batches += 1
        is_here = self.batches <= SHARD
        for _ in examples:
            time.sleep(0.003 if is_here else 0.05)
        return self.collate(examples)


torch.manual_seed(1)
model = LlamaForSequenceClassification(small.config(words, num_labels=1))
trainer = RewardTrainer(
    model=model,
    args=RewardConfig(
        output_dir="out",
        max_steps=54,
        per_device_train_batch_size=BATCH,
        learning_rate=4e-4,
        warmup_steps=3,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        dataloader_num_workers=0,
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    ),
    data_collator=WithDocuments(DataCollatorForPreference(pad_token_id=words.pad_token_id)),
    train_dataset=Dataset.from_list([pair() for _ in range(BATCH * 60)]),
    processing_class=words,
)
trainer.train()
