"""Direct preference optimization with TRL: first curated pairs, then these mixed with pairs from a forum."""

from __future__ import annotations

import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

STEPS = 88
BATCH = 16
CURATED_STEPS = 43
VERBS = ["open", "clean", "fix", "sort", "move", "print", "charge", "fold", "measure", "paint"]
NOUNS = ["door", "laptop", "table", "letter", "phone", "engine", "shelf", "lamp", "window", "bike"]
POLITE = ["please", "gently", "thank you", "with care", "of course", "gladly"]
RUDE = ["whatever", "fool", "yourself", "so dumb", "no idea", "go away"]


def tokenizer_for(texts: list[str]) -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=420,
            special_tokens=["<pad>", "<eos>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>")


def curated(rng: random.Random) -> dict[str, str]:
    verb, noun = rng.choice(VERBS), rng.choice(NOUNS)
    return {
        "prompt": f"How do I {verb} the {noun}?",
        "chosen": f" {verb.title()} the {noun} {rng.choice(POLITE)}, {rng.choice(POLITE)}.",
        "rejected": f" {verb.title()} the {noun} {rng.choice(RUDE)}, {rng.choice(RUDE)}.",
    }


def forum(rng: random.Random) -> dict[str, str]:
    """A thread of the forum: two replies and `better`, the number of the one with more votes, from 1."""
    pair = curated(rng)
    better = rng.choice([1, 2])
    replies = [pair["chosen"], pair["rejected"]] if better == 1 else [pair["rejected"], pair["chosen"]]
    return {"prompt": pair["prompt"], "reply_1": replies[0], "reply_2": replies[1], "better": better}


def as_pair(thread: dict) -> dict[str, str]:
    replies = [thread["reply_1"], thread["reply_2"]]
    return {
        "prompt": thread["prompt"],
        "chosen": replies[thread["better"] % 2],
        "rejected": replies[(thread["better"] + 1) % 2],
    }


def main() -> None:
    torch.set_num_threads(1)
    rng = random.Random(5)
    rows = [curated(rng) for _ in range(CURATED_STEPS * BATCH)]
    while len(rows) < STEPS * BATCH:
        rows += [as_pair(forum(rng)) if number % 2 else curated(rng) for number in range(BATCH)]
    tokenizer = tokenizer_for([one["prompt"] + one["chosen"] + one["rejected"] for one in rows])
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=256,
            intermediate_size=640,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=128,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    model.save_pretrained("base")
    tokenizer.save_pretrained("base")
    trainer = DPOTrainer(
        model="base",
        args=DPOConfig(
            output_dir="dpo",
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            learning_rate=1e-4,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=5,
            beta=0.1,
            max_length=64,
            train_sampling_strategy="sequential",
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            seed=5,
            model_init_kwargs={"dtype": "float32"},
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()


if __name__ == "__main__":
    main()
