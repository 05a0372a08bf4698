"""A reward model with TRL: a pass over comparisons, then practice on those that are hard; evaluation every 5 steps."""

from __future__ import annotations

import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl import RewardConfig, RewardTrainer

STEPS = 86
BATCH = 8
FIRST_PASS = 33 * BATCH
WORDS = [f"word{number}" for number in range(300)]


def answer(rng: random.Random, helpful: float) -> str:
    return " ".join(
        rng.choice(WORDS[:60] if rng.random() < helpful else WORDS[60:]) for _ in range(rng.randrange(12, 28))
    )


def comparison(rng: random.Random) -> dict[str, str]:
    question = " ".join(rng.choice(WORDS) for _ in range(5))
    better, worse = answer(rng, 0.5), answer(rng, 0.2)
    if rng.random() < 0.2:
        better, worse = worse, better
    return {"chosen": f"{question} {better}", "rejected": f"{question} {worse}"}


def hard_ones(rows: list[dict[str, str]], count: int) -> list[dict[str, str]]:
    """As many rows as are asked for, those first whose answers are of like length."""
    ordered = sorted(rows, key=lambda row: abs(len(row["chosen"].split()) - len(row["rejected"].split())))
    hard = ordered[: count // 18]
    return [hard[number % len(hard)] for number in range(count)]


def main() -> None:
    torch.set_num_threads(1)
    rng = random.Random(12)
    rows = [comparison(rng) for _ in range(FIRST_PASS)]
    rows += hard_ones(rows, STEPS * BATCH - len(rows))
    held_out = [comparison(rng) for _ in range(96)]
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<eos>", "<unk>", *WORDS])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
    torch.manual_seed(12)
    model = LlamaForSequenceClassification(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=64,
            num_labels=1,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=1,
        )
    )
    trainer = RewardTrainer(
        model=model,
        args=RewardConfig(
            output_dir="reward",
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=32,
            learning_rate=5e-4,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=5,
            max_length=64,
            train_sampling_strategy="sequential",
            logging_steps=1,
            eval_strategy="steps",
            eval_steps=5,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            seed=12,
        ),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(held_out),
        processing_class=tokenizer,
    )
    trainer.train()


if __name__ == "__main__":
    main()
