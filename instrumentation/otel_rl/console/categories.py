"""The values that a line shows, by category: a word, and the keys under which trainers log it, the best one first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_REWARD = {
    "reward": ("reward", "objective/scores", "rollout/ep_rew_mean", "environment/return_mean"),
    "std": ("reward_std",),
    "success": ("success_rate", "rollout/success_rate", "environment/success_rate"),
    "eval": ("eval_reward", "eval/mean_reward", "eval_environment/return_mean"),
}
_LEARNING = {
    "loss": ("loss", "train/loss", "train_loss", "torch/loss"),
    "kl": ("kl", "objective/kl", "train/approx_kl"),
    "entropy": ("entropy", "objective/entropy"),
    "grad": ("grad_norm", "otel_rl.grad_norm", "torch/grad_norm"),
    "lr": ("learning_rate", "train/learning_rate", "torch/learning_rate"),
    "eval loss": ("eval_loss",),
}
_ROLLOUT = {
    "length": ("completions/mean_length", "completion_length", "rollout/ep_len_mean", "environment/length_mean"),
    "cut": ("completions/clipped_ratio",),
    "episodes": ("environment/episodes",),
    "steps/s": ("environment/steps_per_second", "time/fps"),
}
#: Keys whose values a line may show.
SHOWN = frozenset(key for of in (_REWARD, _LEARNING, _ROLLOUT) for keys in of.values() for key in keys)


def reward(values: Mapping[str, float]) -> str:
    """Return rewards, and how many samples succeed."""
    return _words(_REWARD, values)


def mean_reward(values: Mapping[str, float]) -> float | None:
    """Return the mean reward, under whatever key it was logged."""
    return next((values[key] for key in _REWARD["reward"] if key in values), None)


def learning(values: Mapping[str, float]) -> str:
    """Return what says whether the policy learns."""
    return _words(_LEARNING, values)


def rollout(values: Mapping[str, float]) -> str:
    """Return what says how samples are made."""
    return _words(_ROLLOUT, values)


def _words(category: Mapping[str, tuple[str, ...]], values: Mapping[str, float]) -> str:
    known = ((word, next((values[key] for key in keys if key in values), None)) for word, keys in category.items())
    return " ".join(f"{word} {value:.4g}" for word, value in known if value is not None)
