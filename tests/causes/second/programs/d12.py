"""A reward classifier with the Trainer of transformers; stops at its time limit and goes on later."""

from __future__ import annotations

import argparse

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

STEPS = 96
LENGTH = 64
VOCABULARY = 500


class Answers(Dataset):
    """Answers, good if more of their words are of the first half of the vocabulary."""

    def __init__(self, count: int, seed: int):
        rng = np.random.default_rng(seed)
        quality = rng.choice([0.2, 0.35, 0.65, 0.8], (count, 1))
        low = rng.random((count, LENGTH)) < quality
        self.tokens = np.where(low, rng.integers(1, 250, low.shape), rng.integers(250, VOCABULARY, low.shape))
        self.labels = (low.mean(1) > 0.5).astype(np.int64)
        wrong = rng.random(count) < 0.05
        self.labels[wrong] = 1 - self.labels[wrong]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.tensor(self.tokens[place]), "labels": torch.tensor(self.labels[place])}


class TimeLimit(TrainerCallback):
    def __init__(self, step: int | None):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.step:
            print(f"time limit: saving at step {self.step}", flush=True)
            control.should_save = True
            control.should_training_stop = True
        return control


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int)
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=192,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=512,
            max_position_embeddings=LENGTH,
            num_labels=2,
        )
    )
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir="checkpoints",
            max_steps=STEPS,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=32,
            learning_rate=3e-4,
            lr_scheduler_type="linear",
            warmup_steps=12,
            logging_steps=1,
            eval_strategy="steps",
            eval_steps=24,
            save_strategy="steps",
            save_steps=30,
            save_total_limit=3,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            seed=3,
        ),
        train_dataset=Answers(1280, 0),
        eval_dataset=Answers(192, 1),
        compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())},
        callbacks=[TimeLimit(options.limit)],
    )
    trainer.train(resume_from_checkpoint=True if options.resume else None)
    print(trainer.evaluate() if trainer.state.global_step == STEPS else "stopped")


if __name__ == "__main__":
    main()
