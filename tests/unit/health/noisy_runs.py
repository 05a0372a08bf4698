"""Healthy runs of many kinds with the noise of small batches, and the same runs driven into one failure."""

from __future__ import annotations

from made_up_runs import thrown

from otel_rl.semconv.attributes import RlHealthCodeValues as Code


def healthy(seed, steps=None, *, every=None):
    """The values of each step, and its seconds; of some runs only every fifth step is logged."""
    dice = thrown(seed)
    steps = steps or dice.choice([8, 15, 30, 60, 120, 250])
    samples = dice.choice([4, 8, 16, 64])
    first = sorted([dice.uniform(0, 0.6), dice.uniform(0.2, 0.95)])
    second = sorted([dice.uniform(0.05, 0.9), dice.uniform(0.05, 0.95)])
    length, growth = dice.uniform(20, 400), dice.uniform(0.5, 2.2)
    kl, entropy, fall = dice.choice([0.0005, 0.01, 0.1, 0.3]), dice.uniform(0.1, 5), dice.uniform(0.3, 1.1)
    truncated, rate = dice.choice([0, 0.02, 0.2]), dice.choice([1e-6, 1e-5, 1e-3])
    seconds, every = dice.choice([0.1, 0.5, 2, 30]), every or dice.choice([1, 1, 1, 5])

    def batch(share, done, number):
        chance = share[0] + (share[1] - share[0]) * done
        return sum(dice.random() < chance for _ in range(number)) / number

    values, times = [], []
    for step in range(1, steps + 1):
        done = step / steps
        rewards = batch(first, done, samples), batch(second, done, samples)
        logged = {
            "loss": dice.gauss(0, 0.1),
            "grad_norm": dice.lognormvariate(-0.5, 0.6),
            "learning_rate": rate * min(step / 10, 1) * (1 - 0.9 * done),
            "kl": kl * done * dice.lognormvariate(0, 0.7),
            "entropy": max(entropy * (1 + (fall - 1) * done) * dice.gauss(1, 0.08), 0.001),
            "reward": sum(rewards),
            "reward_std": max(dice.gauss(0.3, 0.1), 0.01),
            "frac_reward_zero_std": min(max(dice.gauss(0.3, 0.2), 0), 1),
            "rewards/correct/mean": rewards[0],
            "rewards/form/mean": rewards[1],
            "completions/mean_length": length * (1 + (growth - 1) * done) * dice.lognormvariate(0, 0.15),
            "completions/clipped_ratio": min(max(dice.gauss(truncated, 0.1), 0), 1),
            "clip_ratio/region_mean": abs(dice.gauss(0.03, 0.03)),
        }
        if step % max(steps // 8, 1) == 0:
            logged["eval_reward"] = batch(first, done, 8)
        values.append(logged if step % every == 0 else {})
        longer = 1 + done * max(growth - 1, 0)
        times.append(
            seconds * dice.lognormvariate(0, 0.2) * longer * (20 if step == 1 else 1)
            + (2 * seconds if step % 25 == 0 else 0)
        )
    return values, times


#: Code -> what becomes of the values and of the seconds from the onset on; ``late`` counts steps from 1.
FAILURES = {
    Code.P3_KL_EXPLOSION: lambda values, late, dice: (
        values | {"kl": 0.4 * 1.8 ** min(late, 6) * dice.uniform(0.8, 1.2)}
    ),
    Code.P4_ENTROPY_COLLAPSE: lambda values, late, dice: values | {"entropy": 0.0008 * dice.uniform(0.5, 1.5)},
    Code.P9_TRUNCATION: lambda values, late, dice: values | {"completions/clipped_ratio": 1.0},
    Code.NO_SIGNAL: lambda values, late, dice: values | {"frac_reward_zero_std": 1.0, "reward_std": 0.0, "reward": 0.0},
    Code.LEARNING_RATE: lambda values, late, dice: values | {"learning_rate": 0.03},
    Code.GRADIENT_NORM: lambda values, late, dice: values | {"grad_norm": dice.uniform(200, 900)},
    Code.NON_FINITE: lambda values, late, dice: values | {"loss": float("nan")},
    Code.P8_GARBLED_OUTPUT: lambda values, late, dice: values | {"completions/mean_length": dice.uniform(0.2, 1.0)},
}


def driven(code, seed, steps=60, onset=30):
    """A healthy run that fails from ``onset`` on."""
    values, times = healthy(seed, steps, every=1)
    dice = thrown(seed)
    failing = FAILURES[code]
    return [
        failing(logged, step - onset + 1, dice) if step >= onset else logged for step, logged in enumerate(values, 1)
    ], times
