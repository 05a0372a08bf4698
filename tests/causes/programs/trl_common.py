"""What the programs with a trainer of TRL share: arguments, data, the step that the program is in."""

from __future__ import annotations

import argparse
import os
import random

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from bugs import now
from datasets import Dataset
from transformers import TrainerCallback

LETTERS, DIGITS = "abcdefghij", "0123456789"


class StepCounter(TrainerCallback):
    """Keeps the number of the step that comes next or is made."""

    def on_train_begin(self, args, state, control, **_):
        now["step"] = state.global_step + 1

    def on_step_end(self, args, state, control, **_):
        now["step"] = state.global_step + 1


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser()
    found.add_argument("model", help="folder of the model to begin with")
    found.add_argument("--steps", type=int, default=45)
    found.add_argument("--lr", type=float, default=2e-4)
    found.add_argument("--schedule", default="constant")
    found.add_argument("--warmup", type=int, default=0)
    found.add_argument("--batch", type=int, default=8)
    found.add_argument("--accumulate", type=int, default=1)
    found.add_argument("--eval-every", type=int, default=0)
    found.add_argument("--save-every", type=int, default=0)
    found.add_argument("--resume", action="store_true")
    found.add_argument("--stop-after", type=int, default=0)
    found.add_argument("--seed", type=int, default=7)
    found.add_argument("--workers", type=int, default=0)
    return found


def settings(options: argparse.Namespace) -> dict:
    """Arguments of any trainer."""
    torch.set_num_threads(1)
    random.seed(options.seed)
    return {
        "output_dir": "checkpoints",
        "max_steps": options.steps,
        "per_device_train_batch_size": options.batch,
        "per_device_eval_batch_size": 8,
        "gradient_accumulation_steps": options.accumulate,
        "learning_rate": options.lr,
        "lr_scheduler_type": options.schedule,
        "warmup_steps": options.warmup,
        "logging_steps": 1,
        "eval_strategy": "steps" if options.eval_every else "no",
        "eval_steps": options.eval_every or None,
        "save_strategy": "steps" if options.save_every else "no",
        "save_steps": options.save_every or 500,
        "dataloader_num_workers": options.workers,
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        "seed": options.seed,
    }


class TimeLimit(TrainerCallback):
    """The time of the job is over after this step; another one goes on."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.after:
            control.should_training_stop = True


def callbacks(options: argparse.Namespace) -> list[TrainerCallback]:
    return [StepCounter(), *([TimeLimit(options.stop_after)] if options.stop_after else [])]


def answer(symbols: str, chance: random.Random) -> str:
    length = 2
    while length < 16 and chance.random() > 0.25:
        length += 1
    return "".join(chance.choices(symbols, k=length))


def questions(count: int) -> Dataset:
    return Dataset.from_list(
        [{"prompt": f"What is {number} + {number}?"} for number in (n % 100 for n in range(count))]
    )
