"""GRPO with TRL and a curriculum of two stages; the rewards are noisy."""

from __future__ import annotations

import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

STEPS = 80
EASY_STEPS = 34
PROMPTS_PER_STEP = 4
GROUP = 8
LETTERS = list("abcd")
WORDS = ["<pad>", "<eos>", "<unk>", "say", "and", ":", *LETTERS, *(f"w{number}" for number in range(14))]


def problem(rng: random.Random, stage: int) -> dict:
    wanted = rng.sample(LETTERS, stage)
    return {"prompt": f"say {' and '.join(wanted)} :", "wanted": wanted, "stage": stage}


def letters_reward(
    completions: list[str], wanted: list[list[str]], stage: list[int], log_metric=None, **_
) -> list[float]:
    rewards = []
    for completion, letters in zip(completions, wanted, strict=True):
        words = completion.split()
        shares = [min(words.count(one) / max(len(words), 1), 1 / len(letters)) for one in letters]
        rewards.append(sum(shares) + random.gauss(0, 0.06))
    if log_metric is not None:
        log_metric("curriculum/stage", sum(stage) / len(stage))
    return rewards


def length_reward(completions: list[str], **_) -> list[float]:
    return [1 - abs(len(one.split()) - 7) / 12 for one in completions]


def main() -> None:
    torch.set_num_threads(1)
    random.seed(2)
    rng = random.Random(8)
    rows = []
    for step in range(STEPS):
        hard = 0.0 if step < EASY_STEPS else min(0.75, 0.25 + 0.02 * (step - EASY_STEPS))
        rows += [problem(rng, 2 if rng.random() < hard else 1) for _ in range(PROMPTS_PER_STEP)]
    raw = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    torch.manual_seed(8)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(WORDS), n_positions=64, n_embd=96, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1
        )
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[letters_reward, length_reward],
        args=GRPOConfig(
            output_dir="grpo",
            max_steps=STEPS,
            per_device_train_batch_size=PROMPTS_PER_STEP * GROUP,
            num_generations=GROUP,
            max_completion_length=32,
            shuffle_dataset=False,
            learning_rate=1e-3,
            lr_scheduler_type="cosine",
            warmup_steps=6,
            beta=0.0,
            reward_weights=[1.0, 0.3],
            logging_steps=1,
            save_strategy="steps",
            save_steps=30,
            report_to="none",
            disable_tqdm=True,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            seed=8,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()


if __name__ == "__main__":
    main()
