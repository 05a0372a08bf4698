"""GRPO with TRL on two shards of word problems; rewards for the solution and for the length."""

from __future__ import annotations

import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

STEPS = 84
PROMPTS_PER_STEP = 6
GROUP = 8
LETTERS = list("abcdef")
WORDS = ["<pad>", "<eos>", "<unk>", "say", "the", "letter", ":", *LETTERS, *(f"w{number}" for number in range(19))]


def first_shard(rng: random.Random, count: int) -> list[dict[str, str]]:
    """Problems with the bare solution."""
    letters = [rng.choice(LETTERS) for _ in range(count)]
    return [{"prompt": f"say the letter {one} :", "solution": one} for one in letters]


def second_shard(rng: random.Random, count: int) -> list[dict[str, str]]:
    """Problems of another collection, with its marker before the solution."""
    letters = [rng.choice(LETTERS) for _ in range(count)]
    return [{"prompt": f"say the letter {one} :", "solution": f"#### {one}"} for one in letters]


def matches_solution(completions: list[str], solution: list[str], **_) -> list[float]:
    words = [one.split() for one in completions]
    return [one.count(wanted) / max(len(one), 1) for one, wanted in zip(words, solution, strict=True)]


def length_score(completions: list[str], **_) -> list[float]:
    return [1 - abs(len(one.split()) - 10) / 16 for one in completions]


def main() -> None:
    torch.set_num_threads(1)
    rng = random.Random(6)
    rows = first_shard(rng, 38 * PROMPTS_PER_STEP)
    rows += second_shard(rng, STEPS * PROMPTS_PER_STEP - len(rows))
    raw = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    torch.manual_seed(6)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS),
            hidden_size=128,
            intermediate_size=192,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=64,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=1,
        )
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[matches_solution, length_score],
        args=GRPOConfig(
            output_dir="grpo",
            max_steps=STEPS,
            per_device_train_batch_size=PROMPTS_PER_STEP * GROUP,
            num_generations=GROUP,
            max_completion_length=32,
            shuffle_dataset=False,
            learning_rate=1e-3,
            lr_scheduler_type="constant",
            beta=0.0,
            reward_weights=[1.0, 0.2],
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            seed=6,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()


if __name__ == "__main__":
    main()
