"""Trains with TRL as a plan says, and ruins something at one of its steps: `trl_program.py PLAN.json MODEL`.

PLAN: ``trainer`` (name of the class), ``steps``, ``arguments`` of its configuration, ``rewards`` by name; ``model``
``random`` for one that never ends its answers; ``evaluate`` for a data set to evaluate on; and ``change``: ``step``,
and what is different from that step on.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import torch.distributed as dist
import trl
from answering_model import DIGITS, LETTERS, answer, question
from datasets import Dataset
from tiny_model import build
from transformers import TrainerCallback

torch.set_num_threads(1)
plan: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
change: dict[str, Any] = plan.get("change", {})
rank = int(os.environ.get("RANK", "0"))
#: The present step, from 1.
now = {"step": 1}


def is_changed(name: str) -> bool:
    return name in change and now["step"] >= change["step"]


# -- rewards -----------------------------------------------------------------------------------------------------------


def accuracy(completions: list[str], **_: object) -> list[float]:
    """The share of digits."""
    if is_changed("slow_reward") and rank == change.get("rank", 0):
        time.sleep(change["slow_reward"])
    if is_changed("constant_reward"):
        return [change["constant_reward"]] * len(completions)
    return [share(text, DIGITS) for text in completions]


def judge(completions: list[str], **_: object) -> list[float]:
    """What a judge thinks, that can be gamed: it likes letters."""
    return [share(text, LETTERS) for text in completions]


def brevity(completions: list[str], **_: object) -> list[float]:
    """1 for six characters, less the further the length is from that."""
    return [1.0 - min(abs(len(text) - 6) / 12, 1.0) for text in completions]


def sevens(completions: list[str], **_: object) -> list[float]:
    """The share of one digit: the best answer has no other."""
    return [share(text, "7") for text in completions]


def share(text: str, symbols: str) -> float:
    return sum(one in symbols for one in text) / max(len(text), 1)


# -- what changes ------------------------------------------------------------------------------------------------------


class Changes(TrainerCallback):
    """Changes what the plan says when its step begins."""

    trainer: Any

    def on_train_begin(self, args, state, control, lr_scheduler=None, **_):
        if "learning_rate" in change:
            factor = change["learning_rate"] / args.learning_rate
            factors = [lambda done: factor if done + 1 >= change["step"] else 1.0]
            lr_scheduler.lr_lambdas = factors * len(lr_scheduler.lr_lambdas)

    def on_step_begin(self, args, state, control, model=None, **_):
        now["step"] = state.global_step + 1
        if now["step"] != change.get("step"):
            return
        if "reward_weights" in change:
            self.trainer.reward_weights = torch.tensor(change["reward_weights"])
        if "longest" in change:
            self.trainer.generation_config.max_new_tokens = change["longest"]
        if "broken_weight" in change:
            next(model.parameters()).data[0] = float("nan")


# -- data --------------------------------------------------------------------------------------------------------------


def rows(number: int) -> list[dict[str, Any]]:
    chance = random.Random(1)  # noqa: S311 - no secret
    kind = plan["trainer"]
    if kind == "SFTTrainer":
        return [{"prompt": question(one % 100), "completion": answer(chance, DIGITS)} for one in range(number)]
    if kind == "DPOTrainer":
        return [
            {
                "prompt": question(one % 100),
                "chosen": answer(chance, DIGITS),
                "rejected": answer(chance, LETTERS),
            }
            for one in range(number)
        ]
    if kind == "KTOTrainer":
        return [
            {
                "prompt": question(one % 100),
                "completion": answer(chance, DIGITS if one % 2 else LETTERS),
                "label": bool(one % 2),
            }
            for one in range(number)
        ]
    return [{"prompt": question(one % 100)} for one in range(number)]


def main(model: str) -> None:
    kind = getattr(trl, plan["trainer"])
    sampled = (
        {"num_generations": 8, "max_completion_length": 24} if plan["trainer"] in ("GRPOTrainer", "RLOOTrainer") else {}
    )
    arguments = getattr(trl, plan["trainer"].replace("Trainer", "Config"))(
        **{
            "output_dir": "checkpoints",
            "max_steps": plan["steps"],
            "per_device_train_batch_size": 16,
            "learning_rate": 1e-4,
            "lr_scheduler_type": "constant",
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": "none",
            "use_cpu": True,
            "bf16": False,
            "disable_tqdm": True,
            "seed": 7,
            **sampled,
            **plan.get("arguments", {}),
        }
    )
    changes = Changes()
    rewards = [globals()[name] for name in plan.get("rewards", ())]
    trainer = kind(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list(rows(256)),
        eval_dataset=Dataset.from_list(rows(16)) if plan.get("evaluate") else None,
        callbacks=[changes],
        **({"reward_funcs": rewards} if rewards else {}),
    )
    changes.trainer = trainer
    trainer.train()
    del trainer, changes.trainer
    gc.collect()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(str(build("random")) if plan.get("model") == "random" else sys.argv[2])
