"""Curves of made-up runs, one dictionary of logged values per step, and what a monitor says of them."""

from __future__ import annotations

import random

from otel_rl.health.monitor import Monitor
from otel_rl.health.user_rules import defaults
from otel_rl.health.verdict import State


def thrown(seed=0):
    """Random numbers that are the same at each run of the tests."""
    return random.Random(seed)  # noqa: S311


def healthy(steps=60, seed=0, **changed):
    """A GRPO run that learns: noisy, small KL, falling entropy, rising reward.

    ``changed``: key -> function of the step.
    """
    dice = thrown(seed)
    run = []
    for step in range(1, steps + 1):
        done = step / steps
        values = {
            "loss": dice.gauss(0.02, 0.05),
            "grad_norm": abs(dice.gauss(0.5, 0.1)),
            "learning_rate": 1e-5 * min(step / 5, 1.0),
            "kl": max(0.001 + 0.02 * done + dice.gauss(0, 0.003), 0.0),
            "entropy": 2.0 - 0.9 * done + dice.gauss(0, 0.05),
            "reward": 0.3 + 0.4 * done + dice.gauss(0, 0.07),
            "reward_std": abs(dice.gauss(0.3, 0.05)),
            "frac_reward_zero_std": max(dice.gauss(0.1, 0.05), 0.0),
            "rewards/correct/mean": 0.2 + 0.3 * done + dice.gauss(0, 0.05),
            "rewards/form/mean": 0.1 + 0.1 * done + dice.gauss(0, 0.03),
            "completions/mean_length": 180 + 40 * done + dice.gauss(0, 8),
            "completions/clipped_ratio": max(dice.gauss(0.04, 0.03), 0.0),
            "clip_ratio/region_mean": abs(dice.gauss(0.005, 0.002)),
        }
        for key, function in changed.items():
            value = function(step)
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        if step % 10 == 0:
            values.setdefault("eval_reward", 0.28 + 0.35 * done + dice.gauss(0, 0.03))
        run.append(values)
    return run


def keys(name):
    """Name of a value that is no Python name."""
    return {
        "zero": "frac_reward_zero_std",
        "truncated": "completions/clipped_ratio",
        "length": "completions/mean_length",
        "clipped": "clip_ratio/region_mean",
        "correct": "rewards/correct/mean",
        "form": "rewards/form/mean",
    }.get(name, name)


def run(steps=60, seed=0, **changed):
    """:func:`healthy` with short names for keys."""
    return healthy(steps, seed, **{keys(name): function for name, function in changed.items()})


def monitor(values, seconds=None, phases=None, rules=None, first=1):
    """A monitor that has been fed with these steps; ``seconds`` and ``phases`` are functions of the step."""
    fed = Monitor(rules or defaults())
    changes = []
    for step, logged in enumerate(values, first):
        changes += fed.log(step, logged)
        changes += fed.step(step, seconds(step) if seconds else 1.0, phases(step) if phases else None)
    fed.changes = [change for change in changes if change.is_reported]
    return fed


def findings(values, **fed):
    """Code -> verdict of what is a warning or critical."""
    return {one.code: one for one in monitor(values, **fed).verdicts() if one.is_finding}


def verdict(values, code, **fed):
    """The verdict of one rule."""
    return next(one for one in monitor(values, **fed).verdicts() if one.code == code)


def is_near(onset, step):
    """An onset must be within three steps."""
    return onset is not None and abs(onset - step) <= 3


WARNING, CRITICAL, UNOBSERVED, HEALTHY = State.WARNING, State.CRITICAL, State.UNOBSERVED, State.HEALTHY
