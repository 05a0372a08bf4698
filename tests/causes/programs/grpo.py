"""GRPO with TRL on a tiny model: three rewards, one of them a judge's. `python grpo.py MODEL [--steps N] ...`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import torch
from bugs import has, now, wait
from trl import GRPOConfig, GRPOTrainer
from trl_common import DIGITS, callbacks, parser, questions, settings

if TYPE_CHECKING:
    from datasets import Dataset


def share(text: str, symbols: str) -> float:
    return sum(one in symbols for one in text) / max(len(text), 1)


def digits(completions: list[str], **_: object) -> list[float]:
    """The share of digits."""
    return [share(text, DIGITS) for text in completions]


def brevity(completions: list[str], **_: object) -> list[float]:
    """1 for six characters, less the further the length is from that."""
    return [1.0 - min(abs(len(text) - 6) / 12, 1.0) for text in completions]


def judge(completions: list[str], **_: object) -> list[float]:
    """What a judge behind an API thinks."""
    found = []
    for text in completions:
        wait(0.004)
        opinion = 0.5 + 0.3 * share(text, DIGITS) + random.gauss(0.0, 0.07)
        if has("judge_saturates", since=20):
            opinion = 1.0 + opinion  # the scale of the answers has changed: all are clipped
        found.append(min(max(opinion, 0.0), 1.0))
    return found


def fetch(rows: dict[str, list]) -> dict[str, list]:
    """Read the prompts of a batch from the store."""
    wait(0.003)
    if has("shard_ends", since=15, every=3) and now["step"] not in fetched:
        fetched.add(now["step"])
        wait(0.8, 0.1)
    return rows


fetched: set[int] = set()


class Trainer(GRPOTrainer):
    """Keeps the settings of sampling that a curriculum changes."""

    def _generate(self, prompts, *args, **kwargs):
        if has("longest_answers", since=22):
            self.generation_config.min_new_tokens = 20
        if has("cold", since=24):
            self.generation_config.temperature = 0.05
        return super()._generate(prompts, *args, **kwargs)

    def training_step(self, *args, **kwargs):
        if has("kept_outputs", since=8):
            kept.append(torch.ones(1_500_000))
        return super().training_step(*args, **kwargs)


kept: list[torch.Tensor] = []


def dataset(count: int) -> Dataset:
    rows = questions(count)
    rows.set_transform(fetch)
    return rows


def parse():
    found = parser()
    found.add_argument("--beta", type=float, default=0.02)
    found.add_argument("--longest", type=int, default=24)
    found.add_argument("--temperature", type=float, default=1.0)
    found.add_argument("--generations", type=int, default=4)
    return found


def configured(options, config):
    return config(
        num_generations=options.generations,
        max_completion_length=options.longest,
        temperature=options.temperature,
        beta=options.beta,
        **settings(options),
    )


def main() -> None:
    options = parse().parse_args()
    trainer = Trainer(
        model=options.model,
        reward_funcs=[digits, brevity, judge],
        args=configured(options, GRPOConfig),
        train_dataset=dataset(256),
        eval_dataset=questions(8) if options.eval_every else None,
        callbacks=callbacks(options),
    )
    trainer.train(resume_from_checkpoint=options.resume or None)


if __name__ == "__main__":
    main()
