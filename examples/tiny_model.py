"""A tiny random Qwen2 model with a byte-level tokenizer, built on this machine without a download.

    python examples/tiny_model.py DIRECTORY

`build(directory)` writes a model that `from_pretrained`, a trainer or `transformers serve` can load. It is small
enough (two layers, about 100 000 weights) that a training step takes a fraction of a second on a CPU.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

PAD, TURN_START, TURN_END = "<pad>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] %}{{ message['content'] }}{% endif %}"
    "{% if message['tool_calls'] %}{% for call in message['tool_calls'] %}"
    "<tool_call>{{ call['function'] | tojson }}</tool_call>{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

TOKENIZER_TEXT = [
    "system user assistant tool",
    "What is 1 + 2? Say the number and nothing else.",
    "The answer is 3. Please add the two numbers: 45 + 67 = 112, 89 + 10 = 99.",
]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on a few sentences; it can spell any text and has a chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=384,
        special_tokens=[PAD, TURN_START, TURN_END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TOKENIZER_TEXT * 4, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=TURN_END,
        padding_side="left",
        model_max_length=1024,
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def make_model(tokenizer: PreTrainedTokenizerFast, seed: int = 0, heads: int = 4) -> Qwen2ForCausalLM:
    """Build a randomly initialised Qwen2 for `tokenizer`; the caller's random state is left as it was.

    vLLM on the CPU needs heads of 32 elements or more: 2 `heads` or fewer.
    """
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config)


def build(directory: str | Path, heads: int = 4) -> Path:
    """Save model and tokenizer in `directory` unless they are there already, and return its absolute path.

    Several processes may call it at once: each builds in a folder of its own and renames it into place, so that a
    reader finds all files or none.
    """
    target = Path(directory).absolute()
    if (target / "config.json").exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        tokenizer = make_tokenizer()
        make_model(tokenizer, heads=heads).save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        scratch.chmod(0o755)
        scratch.rename(target)
    except OSError:
        # Another process renamed its folder into place first.
        if not (target / "config.json").exists():
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(build(sys.argv[1]))
