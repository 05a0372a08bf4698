"""Supervised fine-tuning with TRL: warmup and cosine, evaluation and checkpoints now and then."""

from __future__ import annotations

import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import SFTConfig, SFTTrainer

PEOPLE = ["Ada", "Bo", "Chen", "Dina", "Emil", "Fatma", "Goran", "Hana"]
THINGS = ["apples", "stamps", "books", "marbles", "coins", "shells"]


def story(rng: random.Random) -> str:
    name, thing, count = rng.choice(PEOPLE), rng.choice(THINGS), rng.randrange(5, 60)
    parts = [f"{name} has {count} {thing}."]
    for _ in range(rng.randrange(1, 7)):
        more = rng.randrange(1, 9)
        if rng.random() < 0.6:
            count += more
            parts.append(f"{rng.choice(PEOPLE)} gives {name} {more} {thing}.")
        else:
            count = max(0, count - more)
            parts.append(f"{name} loses {more} {thing}.")
    parts.append(f"Now {name} has {count} {thing}.")
    return " ".join(parts)


def main() -> None:
    torch.set_num_threads(1)
    rng = random.Random(1)
    texts = [story(rng) for _ in range(1000)]
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<pad>", "<eos>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>")
    torch.manual_seed(1)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=256,
            intermediate_size=640,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir="checkpoints",
            max_steps=90,
            per_device_train_batch_size=8,
            per_device_eval_batch_size=16,
            learning_rate=1e-3,
            lr_scheduler_type="cosine",
            warmup_steps=10,
            max_length=128,
            logging_steps=1,
            eval_strategy="steps",
            eval_steps=15,
            save_strategy="steps",
            save_steps=25,
            save_total_limit=2,
            report_to="none",
            disable_tqdm=True,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            seed=1,
        ),
        train_dataset=Dataset.from_dict({"text": texts[:900]}),
        eval_dataset=Dataset.from_dict({"text": texts[900:980]}),
        processing_class=tokenizer,
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
