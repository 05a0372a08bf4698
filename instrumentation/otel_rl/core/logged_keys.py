"""Which way a value that a program logs is better, by the words of its key. A leaf: writers and readers ask it."""

from __future__ import annotations

import re

#: Words of a key.
WORD = re.compile(r"pass@|(?:pass|win)_rate|ep_(?:rew|len)_mean|return_?code|[a-z]+")
#: Words of a key of which a higher value is better. ``margins``: what is chosen above what is rejected.
_RISES = frozenset(
    {
        *("reward", "rewards", "score", "scores", "margin", "margins"),
        *("accuracy", "accuracies", "acc", "success", "successes", "solved", "pass@", "pass_rate", "win_rate"),
        *("return", "returns", "ep_rew_mean"),
    }
)
_DURATIONS = frozenset({"time", "times", "latency"})
_FALLS = frozenset({"loss", "losses", "perplexity", "ppl"})
#: Words with which neither is better: a spread, a bound, a share or a number of something says nothing about its level.
#: Of the implicit rewards of DPO both may fall while their margin rises.
_OPEN = frozenset(
    {
        *("std", "stddev", "var", "variance", "min", "max", "frac", "fraction", "zero", "num", "count", "steps"),
        # How long something took: `timing_s/reward` of verl, `time/reward_fn`.
        *("timing", "timings", "timer", "timers", "seconds", "sec", "ms", "duration", "elapsed", "profiling"),
        *("throughput", "fps"),
        *("chosen", "rejected", "lr"),
    }
)
#: The same after the word that has a direction: `reward/kl` is a divergence, `length_reward` a reward.
_OPEN_AFTER = frozenset(
    {
        *("kl", "entropy", "penalty", "coef", "weight", "scale", "grad", "norm", "clip", "clipped"),
        *("length", "len", "tokens", "calls"),
        # Settings: `reward_lr`, `reward_beta`.
        *("learning", "alpha", "beta", "gamma", "temperature", "threshold"),
    }
)
#: Losses that are no end in themselves: of a policy gradient, of a value function that follows a moving target, and
#: parts of an objective.
_PARTS = _OPEN_AFTER | {"policy", "pg", "actor", "surrogate", "value", "vf", "aux"}


#: Words of keys by which a run learns from rewards.
_REWARDED = frozenset(
    {
        *("reward", "rewards", "return", "returns", "ep_rew_mean"),
        *("environment", "episode", "episodes", "episodic", "ep_len_mean", "env"),
    }
)


def is_of_rewards(key: str) -> bool:
    """Return whether programs that log the key learn from rewards."""
    return not _REWARDED.isdisjoint(WORD.findall(key.lower()))


def direction(key: str, *, is_of_rewards: bool = False) -> int:
    """Return 1 where a higher value of the key is better, -1 where a lower one is, 0 where that is not known.

    ``is_of_rewards`` says that the run learns from rewards: a loss is no end then.
    """
    words = WORD.findall(key.lower())
    # `reward_loss` is a loss, `loss/reward` a reward.
    place = max((place for place, word in enumerate(words) if word in _RISES or word in _FALLS), default=None)
    if place is None or not _OPEN.isdisjoint(words):
        return 0
    # `time/reward` is a duration, `rewards/time_reward` a reward.
    if words[0] in _DURATIONS or words[-1] in _DURATIONS:
        return 0
    if words[place] in _RISES:
        return int(_OPEN_AFTER.isdisjoint(words[place:]))
    is_means = is_of_rewards and words[place].startswith("loss")
    return 0 if is_means or not _PARTS.isdisjoint(words) else -1
