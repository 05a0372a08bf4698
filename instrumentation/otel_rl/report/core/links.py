"""The chain from a cause to what follows, and the place of a logged key in it. A leaf."""

from __future__ import annotations

import re
from enum import IntEnum


class Link(IntEnum):
    """Place of a quantity in the chain from a cause to what follows; the durations of steps have one, too."""

    RATE = 0
    DATA = 1
    TOOL = 2
    ENGINE = 3
    TOKENS = 4
    ROLLOUT = 5
    SCORE = 6
    REWARD = 7
    ADVANTAGE = 8
    GRADIENT = 9
    POLICY = 10
    LOSS = 11
    OTHER = 12
    MEMORY = 13
    #: What takes longer because there is more to do, or a machine is busy; and what is slower.
    LONGER = 14
    SLOWER = 15


_OF_REWARDS = frozenset({Link.ADVANTAGE, Link.GRADIENT, Link.POLICY, Link.LOSS, Link.OTHER})
_OF_ROLLOUTS = _OF_REWARDS | {Link.SCORE, Link.REWARD}
#: What may follow from a change, by its link.
LEADS_TO = {
    Link.RATE: frozenset({Link.GRADIENT, Link.POLICY, Link.LOSS, Link.OTHER, Link.REWARD, Link.SCORE, Link.TOKENS}),
    Link.DATA: frozenset(Link) - {Link.DATA, Link.RATE},
    Link.TOOL: _OF_ROLLOUTS | {Link.TOKENS, Link.ROLLOUT, Link.LONGER, Link.SLOWER},
    Link.ENGINE: _OF_ROLLOUTS | {Link.TOKENS, Link.ROLLOUT, Link.LONGER, Link.SLOWER},
    Link.TOKENS: _OF_ROLLOUTS | {Link.ROLLOUT, Link.LONGER, Link.MEMORY},
    Link.ROLLOUT: _OF_ROLLOUTS | {Link.LONGER, Link.MEMORY},
    Link.SCORE: _OF_REWARDS | {Link.REWARD},
    Link.REWARD: _OF_REWARDS,
    Link.ADVANTAGE: _OF_REWARDS - {Link.ADVANTAGE},
    Link.GRADIENT: frozenset({Link.POLICY, Link.LOSS, Link.OTHER}),
    Link.POLICY: frozenset({Link.LOSS, Link.OTHER}),
    Link.LOSS: frozenset({Link.OTHER}),
    Link.MEMORY: frozenset({Link.LONGER, Link.SLOWER}),
}

#: Which way is better: up, down, or neither.
UP, DOWN, NEITHER = 1, -1, 0
#: A logged key -> link and direction. The first that is found counts; ``\b`` knows no underscore.
_WORD = r"(?:^|[/_.\s])"
_KEYS: tuple[tuple[str, Link, int], ...] = (
    (r"(learning_rate|lr)(/\w+|[-_]\w+)?$", Link.RATE, NEITHER),
    (r"(^|/)rewards?/[^/]+/mean$", Link.SCORE, UP),
    (r"(zero_?std|zero_variance|frac_reward)", Link.REWARD, DOWN),
    (rf"{_WORD}(reward|return|score|rew)s?([_/](mean|min|max|std))?$", Link.REWARD, UP),
    (r"(^|/)rewards?/", Link.REWARD, NEITHER),
    (r"advantage", Link.ADVANTAGE, NEITHER),
    (r"grad(ient)?_?norm", Link.GRADIENT, NEITHER),
    (rf"{_WORD}(accurac|success|solved|correct|pass@|margin)", Link.REWARD, UP),
    (rf"{_WORD}(truncat|clipped|abort)", Link.TOKENS, DOWN),
    (rf"{_WORD}(length|len|lengths|tokens)([_/](mean|min|max))?$|{_WORD}(length|tokens)", Link.TOKENS, NEITHER),
    (rf"{_WORD}(turns|calls)", Link.ROLLOUT, NEITHER),
    (rf"{_WORD}(entropy|kl|clip|clipfrac|ratio|logps?|approx)", Link.POLICY, NEITHER),
    (rf"loss|{_WORD}(td|value|reconstruction|prediction)_error", Link.LOSS, DOWN),
    (rf"{_WORD}(errors?|fail|invalid|dropped|empty)", Link.DATA, DOWN),
    (rf"{_WORD}(batch_?size|num_samples)$", Link.DATA, NEITHER),
    (rf"{_WORD}(queue|backlog|pending|waiting|outstanding|lag|stale)", Link.ENGINE, DOWN),
    (rf"{_WORD}(accept|kept|keep|valid|used|usable)\w*[_/](share|rate|ratio|frac)", Link.DATA, UP),
)


#: Counts that only rise, by the last part of a key; times, and what the machine has to do with: they are no curves.
_COUNTS = re.compile(
    r"(^|/)(n_|num_|total_|global_)?(epochs?|episodes?|eta|steps?|iterations?|updates|(input_)?tokens(_seen)?|"
    r"samples_seen|timesteps?|flos)$"
)
_OF_MACHINE = re.compile(
    r"(^|[/_.\s])(time|times|seconds?|sec|secs|duration|timing|perf|throughput|fps|ms|per_second|mfu|flops|memory|mem|"
    r"gpu|cpu)([/_.\s]|$)",
    re.IGNORECASE,
)


def link_of(key: str) -> tuple[Link, int]:
    """Return the link of a logged key, and which way is better."""
    tail = key.lower()
    return next(((link, better) for pattern, link, better in _KEYS if re.search(pattern, tail)), (Link.OTHER, NEITHER))


def is_curve(key: str) -> bool:
    """Return whether a logged key is a value of the training: no count, time or figure of the machine."""
    return _COUNTS.search(key.lower()) is None and _OF_MACHINE.search(key) is None
