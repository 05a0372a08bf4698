"""RLOO with TRL on a tiny model, rewarded by a verifier. `python rloo.py MODEL [--steps N] ...`."""

from __future__ import annotations

import random

from bugs import has, now, wait
from grpo import configured, dataset, parse, share
from trl import RLOOConfig, RLOOTrainer
from trl_common import DIGITS, callbacks, questions


def verify(completions: list[str], prompts: list[str], **_: object) -> list[float]:
    """The share of even digits, as the verifier measures it."""
    wait(0.01)
    found = [share(text, DIGITS[::2]) + random.gauss(0.0, 0.02) for text in completions]
    if has("same_in_group", since=22):
        # Cached by the prompt: all answers to a question have the score of the first one.
        first: dict[str, float] = {}
        found = [first.setdefault(prompt, one) for prompt, one in zip(prompts, found, strict=True)]
    return found


def length(completions: list[str], **_: object) -> list[float]:
    if has("length_slow", since=18):
        wait(0.012 * (now["step"] - 17))
    return [min(len(text) / 16, 1.0) * 0.5 for text in completions]


def main() -> None:
    options = parse().parse_args()
    trainer = RLOOTrainer(
        model=options.model,
        reward_funcs=[verify] if has("same_in_group", since=0) else [verify, length],
        args=configured(options, RLOOConfig),
        train_dataset=dataset(256),
        eval_dataset=questions(8) if options.eval_every else None,
        callbacks=callbacks(options),
    )
    trainer.train(resume_from_checkpoint=options.resume or None)


if __name__ == "__main__":
    main()
