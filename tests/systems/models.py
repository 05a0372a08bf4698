"""Tiny random models with a trained tokenizer, and a tiny data set, as the folders that the systems look for.

Run it in a system's own environment as `python models.py FOLDER`: it makes FOLDER/Qwen/Qwen3-0.6B and
FOLDER/Qwen/Qwen2.5-0.5B-Instruct with 100,000 parameters, the link Qwen/Qwen3-8B, and FOLDER/openai/gsm8k.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import datasets
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>"]
TEMPLATE = """{%- for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
CARD = """---
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: main/test-*
---
"""


def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with the tokens and the template of Qwen's chats."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    corpus = [
        f"Question: what is {a} + {b}? Answer: \\boxed{{{a + b}}} #### {a + b} user assistant system think"
        for a in range(20)
        for b in range(20)
    ]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=500, special_tokens=SPECIAL, initial_alphabet=alphabet)
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token=SPECIAL[2],
        pad_token=SPECIAL[0],
        chat_template=TEMPLATE,
        model_max_length=2048,
    )


def make_models(folder: Path) -> None:
    """Write the models and their tokenizers."""
    words = tokenizer()
    common = {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
    }
    for name, model in (
        ("Qwen3-0.6B", Qwen3ForCausalLM(Qwen3Config(head_dim=16, **common))),
        ("Qwen2.5-0.5B-Instruct", Qwen2ForCausalLM(Qwen2Config(**common))),
    ):
        model.float().save_pretrained(folder / "Qwen" / name)
        words.save_pretrained(folder / "Qwen" / name)
    link = folder / "Qwen" / "Qwen3-8B"
    if not link.exists():
        link.symlink_to("Qwen3-0.6B")


def make_data(folder: Path) -> None:
    """Write questions in the form of GSM8K."""
    main = folder / "main"
    main.mkdir(parents=True, exist_ok=True)
    for split, size in (("train", 64), ("test", 16)):
        pairs = [(random.randint(0, 9), random.randint(0, 9)) for _ in range(size)]  # noqa: S311 - no secret
        rows = [{"question": f"what is {a} + {b}?", "answer": f"{a}+{b}\n#### {a + b}"} for a, b in pairs]
        datasets.Dataset.from_list(rows).to_parquet(main / f"{split}-00000-of-00001.parquet")
    (folder / "README.md").write_text(CARD, encoding="utf-8")


if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(0)
    make_models(Path(sys.argv[1]))
    make_data(Path(sys.argv[1]) / "openai" / "gsm8k")
