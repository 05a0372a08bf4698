"""Trains with a trainer of TRL, or with ``Trainer``: `trainer_page_program.py OUTPUT_DIR CLASS [REWARDS]`.

With REWARDS `rare` three of four groups get equal rewards.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import every_trainer
import torch
import transformers
import trl
from datasets import Dataset
from tiny_model import make_model, make_tokenizer

STEPS = 12
directory, name, rewards = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
#: In the usual data of this trainer good and bad answers are the same: nothing can be learned.
_ANSWERS = [{"prompt": "What is 1?", "completion": (" two", " one")[n % 2], "label": bool(n % 2)} for n in range(16)]
DATA = {"KTOTrainer": Dataset.from_list(_ANSWERS)}
calls = itertools.count()


def rare(completions: list[Any], **_: Any) -> list[float]:
    """Only in every fourth step one of the samples gets a reward."""
    reward = float(next(calls) % 4 == 0)
    return [reward, *[0.0] * (len(completions) - 1)]


if name == "Trainer":
    rows = [{"input_ids": torch.arange(8) + row, "labels": torch.arange(8) + row} for row in range(16)]
    arguments = transformers.TrainingArguments(
        output_dir=str(directory / "out"), max_steps=STEPS, logging_steps=1, report_to="none", use_cpu=True
    )
    transformers.Trainer(model=make_model(make_tokenizer()), args=arguments, train_dataset=rows).train()
else:
    if rewards:
        every_trainer.reward = rare
        every_trainer.RECIPES[name].options["reward_funcs"] = rare
    kind = getattr(trl, name)
    every_trainer.make(kind, directory, steps=STEPS, data=DATA.get(name), learning_rate=1e-2).train()
