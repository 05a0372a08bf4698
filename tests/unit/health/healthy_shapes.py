"""Healthy curves of many kinds of training, with noise: a rule that warns of one of them has raised a false alarm."""

from __future__ import annotations

import math

from made_up_runs import thrown


def grpo(seed):
    """A GRPO run that learns, of 60 to 300 steps."""
    dice = thrown(seed)
    steps, noise = dice.choice([60, 150, 300]), dice.choice([0.02, 0.05, 0.1])
    top, length, entropy = dice.uniform(0.4, 0.95), dice.choice([100, 300]), dice.uniform(0.3, 1.5)
    for step in range(1, steps + 1):
        reward = 0.1 + (top - 0.1) * (1 - math.exp(-step / (steps / 3)))
        yield {
            "reward": reward + dice.gauss(0, noise),
            "rewards/a/mean": reward / 2 + dice.gauss(0, noise),
            "rewards/b/mean": reward / 2 + dice.gauss(0, noise),
            "reward_std": abs(0.3 + dice.gauss(0, 0.05)),
            "kl": 0.001 * step**0.6 + abs(dice.gauss(0, 0.005)),
            "entropy": entropy * (0.4 + 0.6 * math.exp(-step / steps)) + dice.gauss(0, 0.02),
            "grad_norm": math.exp(dice.gauss(-1, 0.5)),
            "learning_rate": 1e-6,
            "completions/mean_length": length * (1 + step / steps) + dice.gauss(0, 10),
            "completions/clipped_ratio": abs(dice.gauss(0.05, 0.03)),
            "frac_reward_zero_std": min(1.0, max(0.0, dice.gauss(0.25, 0.15))),
            "unscored_ratio": max(0.0, dice.gauss(0, 0.03)),
            "loss": dice.gauss(0, 0.02),
        }


def few_samples(seed):
    """A reward of four samples that is mostly zero, and rises slowly."""
    dice = thrown(seed)
    for step in range(1, 401):
        chance = 0.03 + 0.3 * step / 400
        reward = sum(dice.random() < chance for _ in range(4)) / 4
        yield {"reward": reward, "reward_std": 0.2 if reward else 0.0, "loss": dice.gauss(0, 0.05), "grad_norm": reward}


def around_zero(seed):
    """A reward without a trend around zero, of heavy noise; the KL estimate is now and then negative."""
    dice = thrown(seed)
    for _ in range(400):
        yield {
            "reward": dice.gauss(0, 0.3),
            "reward_std": 0.8,
            "kl": dice.gauss(0.01, 0.02),
            "entropy": 1.0 + dice.gauss(0, 0.1),
            "loss": dice.gauss(0, 0.2) * math.exp(dice.gauss(0, 0.5)),
            "clip_ratio/region_mean": 0.03,
        }


def negative(seed):
    """A penalty that becomes smaller, and its KL in the loss."""
    dice = thrown(seed)
    for step in range(1, 301):
        yield {
            "reward": -3 + 2 * step / 300 + dice.gauss(0, 0.3),
            "reward_std": 0.4,
            "kl": 0.0003 * step * math.exp(dice.gauss(0, 0.2)),
            "loss": 0.0001 * step + dice.gauss(0, 0.005),
            "entropy": 0.3 + 0.3 * step / 300 + dice.gauss(0, 0.02),
        }


def supervised(seed):
    """SFT: warm start, spikes, a warm-up and a cosine to zero; the entropy rises or falls."""
    dice = thrown(seed)
    steps, first, last = dice.choice([100, 400]), dice.uniform(2, 8), dice.uniform(0.02, 1.5)
    for step in range(1, steps + 1):
        spike = dice.uniform(3, 8) if dice.random() < 0.01 else 1.0
        rate = min(step / 20, 1) * 2e-5 * (0.5 + 0.5 * math.cos(math.pi * min((step - 1) / (steps - 1), 1)))
        yield {
            "loss": (last + (first - last) * math.exp(-step / 30)) * math.exp(dice.gauss(0, 0.15)) * spike,
            "grad_norm": (30 * math.exp(-step / 10) + 1 + abs(dice.gauss(0, 0.2))) * spike,
            "learning_rate": rate if step < steps else 0.0,
            "entropy": 3 * math.exp(-step / 30) + 0.01,
        }


def epochs(seed):
    """SFT over a small set: the loss falls at each epoch, and rises a bit at new data."""
    dice = thrown(seed)
    for step in range(400):
        level = (2.0, 1.2, 0.5, 0.9)[step // 100]
        yield {"loss": level * math.exp(dice.gauss(0, 0.3)), "grad_norm": abs(dice.gauss(1, 0.2))}


def restarts(seed):
    """A cosine with restarts that reaches zero, and a loss that answers to it."""
    dice = thrown(seed)
    for step in range(400):
        rate = 0.5 * (1 + math.cos(math.pi * (step % 100) / 99))
        yield {
            "loss": 1.5 + 0.4 * rate + dice.gauss(0, 0.1),
            "grad_norm": 1 + abs(dice.gauss(0, 0.1)),
            "learning_rate": 1e-4 * rate,
        }


def dpo(seed):
    """Preference training of 16 pairs a batch, fast or slow, with a warm-up; both rewards may fall."""
    dice = thrown(seed)
    pace, top, warm_up = dice.choice([20, 60, 150]), dice.uniform(0.62, 0.95), dice.choice([1, 20, 60])
    for step in range(1, dice.choice([150, 400])):
        done = 1 - math.exp(-max(step - warm_up / 2, 0.02 * step) / pace)
        pairs = [dice.gauss(2 * (top - 0.5) * done, 0.8 * done + 0.01) for _ in range(16)]
        margin = sum(pairs) / 16
        yield {
            "loss": 0.69 - 0.3 * done + dice.gauss(0, 0.05),
            "rewards/chosen": -done,
            "rewards/rejected": -done - margin,
            "rewards/accuracies": sum(pair > 0 for pair in pairs) / 16 if step > 1 else 0.0,
            "rewards/margins": margin,
            "grad_norm": abs(dice.gauss(5, 2)),
            "learning_rate": 5e-7 * min(step / warm_up, 1.0),
        }


def kto(seed):
    """Preference training without accuracies."""
    dice = thrown(seed)
    for step in range(1, 200):
        yield {
            "loss": 0.5 - step / 1000 + dice.gauss(0, 0.03),
            "kl": 8 + step / 20 + dice.gauss(0, 2),
            "rewards/chosen": step / 10,
            "rewards/rejected": -step / 10,
            "rewards/margins": step / 5 + dice.gauss(0, 2),
        }


def ppo(seed):
    """PPO: the loss has that of the values in it, the estimates of the KL are noisy, one update is on-policy."""
    dice = thrown(seed)
    for step in range(1, 301):
        yield {
            "loss": 0.1 * math.exp(-step / 50) * dice.lognormvariate(0, 0.7) + dice.gauss(0, 0.05),
            "objective/kl": abs(dice.gauss(0, 1)) + step / 30 - 1,
            "actor/ppo_kl": dice.gauss(0, 0.003),
            "policy/entropy_avg": 1.2 - 0.5 * step / 300 + dice.gauss(0, 0.05),
            "objective/entropy": 60 * (1 + 4 * step / 300) + dice.gauss(0, 5),
            "objective/scores": 0.5 * step / 300 + dice.gauss(0, 0.2),
            "learning_rate": 1e-6,
        }


def on_policy(seed):
    """One update per batch: the update's divergence is exactly zero, and so is the KL without a reference."""
    dice = thrown(seed)
    for step in range(1, 201):
        yield {
            "actor/ppo_kl": 0.0,
            "kl": 0.0,
            "loss": round(dice.gauss(0, 0.00005), 4),
            "reward": 0.3 + 0.4 * step / 200 + dice.gauss(0, 0.05),
            "reward_std": abs(dice.gauss(0.3, 0.05)),
            "grad_norm": abs(dice.gauss(0.5, 0.1)),
            "learning_rate": 1e-6,
            "entropy": 0.15 + 0.35 * step / 200 + dice.gauss(0, 0.02),
        }


SHAPES = (
    grpo,
    few_samples,
    around_zero,
    negative,
    supervised,
    epochs,
    restarts,
    dpo,
    kto,
    ppo,
    on_policy,
)
