"""The cookbook's `supervised.train.main` on a few sentences: `sl.py FOLDER STEPS`."""

from __future__ import annotations

import asyncio
import os
import sys

import chz
import tinker
import torch
from tinker_cookbook.supervised import train
from tinker_cookbook.supervised.common import datum_from_model_input_weights
from tinker_cookbook.supervised.types import SupervisedDataset, SupervisedDatasetBuilder
from tinker_cookbook.tokenizer_utils import get_tokenizer

MODEL = "Qwen/Qwen3-8B"
FOLDER, STEPS = sys.argv[1:]


class Sentences(SupervisedDataset):
    def __init__(self, batches):
        self.batches = batches
        self.tokenizer = get_tokenizer(MODEL)

    def get_batch(self, index):
        tokens = [self.tokenizer.encode(f"{index} and {other} are numbers") for other in range(4)]
        inputs = [tinker.ModelInput.from_ints(one) for one in tokens]
        return [datum_from_model_input_weights(one, torch.ones(one.length), 64) for one in inputs]

    def set_epoch(self, seed=0):
        pass

    def __len__(self):
        return self.batches


@chz.chz
class Builder(SupervisedDatasetBuilder):
    def __call__(self):
        return Sentences(int(STEPS)), Sentences(1)


asyncio.run(
    train.main(
        train.Config(
            log_path=FOLDER,
            model_name=MODEL,
            recipe_name="test",
            dataset_builder=Builder(),
            learning_rate=1e-3,
            lora_rank=8,
            save_every=2,
            eval_every=2,
            base_url=os.environ["TINKER_BASE_URL"],
        )
    )
)
