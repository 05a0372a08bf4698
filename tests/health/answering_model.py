"""A tiny model that ends its answers: `python answering_model.py DIRECTORY` trains it in seconds, without a download.

An answer is a few digits and letters in any order; after the second one, it ends with a chance of one in four. That is
enough room to learn from rewards, and hardly any answer is longer than twenty tokens.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from tiny_model import make_model, make_tokenizer

DIGITS, LETTERS = "0123456789", "abcdefghij"
SHORTEST, END = 2, 0.25
_STEPS, _BATCH, _LONGEST, _RATE = 150, 32, 16, 3e-3
#: Label of a token that is not learned.
_NOT_LEARNED = -100


def question(number: int) -> str:
    """The prompt with this number."""
    return f"What is {number} + {number}?"


def answer(chance: random.Random, symbols: str = DIGITS + LETTERS) -> str:
    """Some of the symbols, of random number."""
    length = SHORTEST
    while length < _LONGEST and chance.random() > END:
        length += 1
    return "".join(chance.choices(symbols, k=length))


def build(directory: Path) -> None:
    """Save the trained model and its tokenizer in ``directory``."""
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE)
    chance = random.Random(0)  # noqa: S311 - no secret
    symbol = {one: tokenizer.encode(one)[0] for one in DIGITS + LETTERS}
    prompts = [tokenizer.encode(question(number)) for number in range(100)]
    for _ in range(_STEPS):
        ids, labels = [], []
        for _ in range(_BATCH):
            prompt = chance.choice(prompts)
            said = [*(symbol[one] for one in answer(chance)), tokenizer.eos_token_id]
            ids.append(torch.tensor(prompt + said))
            labels.append(torch.tensor([_NOT_LEARNED] * len(prompt) + said))
        loss = model(input_ids=_padded(ids, tokenizer.pad_token_id), labels=_padded(labels, _NOT_LEARNED)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    model.save_pretrained(scratch)
    tokenizer.save_pretrained(scratch)
    shutil.move(scratch, directory)


def _padded(rows: list[torch.Tensor], value: int) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)


if __name__ == "__main__":
    build(Path(sys.argv[1]).absolute())
