"""Trains with the trainer classes that are named, one after the other, and with ``Trainer``.

PYTHONPATH=examples python every_trainer_program.py OUTPUT_DIR NAME...
"""

from __future__ import annotations

import sys
from pathlib import Path

import every_trainer
import torch
import transformers
from tiny_model import make_model, make_tokenizer


class Sentences(torch.utils.data.IterableDataset):
    """A stream that ends early."""

    def __iter__(self):
        for index in range(8):
            ids = torch.arange(8) + index
            yield {"input_ids": ids, "labels": ids}


def main() -> None:
    directory, names = Path(sys.argv[1]), sys.argv[2:]
    kinds = every_trainer.trainer_classes()
    for name in names:
        every_trainer.make(kinds[name], directory, steps=2).train()
    arguments = transformers.TrainingArguments(
        output_dir=str(directory / "out"), max_steps=6, logging_steps=2, report_to="none", use_cpu=True, save_steps=4
    )
    transformers.Trainer(model=make_model(make_tokenizer()), args=arguments, train_dataset=Sentences()).train()


if __name__ == "__main__":
    main()
