"""The lowest reward that a program gives, by the functions that give it: after a failure it may be the failure's.

Many programs give -1 or another value of their own where a rollout fails, and not 0. A value is the lowest one where it
was the lowest of at least :data:`FEWEST` rewards of the same functions, came more than once, and is not the only one.
So a reward without a floor, such as a distance, has none. Until that is known, the lowest reward is 0.

Nothing here locks: two threads that end a rollout at once may count as one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from otel_rl.telemetry import lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Rewards before the lowest of them says something.
FEWEST = 8
#: Sets of reward functions that are told apart; the lowest reward of others is 0.
_MOST = 256


class LowestReward:
    """The lowest reward of one set of functions."""

    __slots__ = ("_highest", "_lowest", "_number", "_times")

    def __init__(self) -> None:
        self._lowest, self._highest = math.inf, -math.inf
        #: How many rewards there were, and how often the lowest.
        self._number = self._times = 0

    def add(self, reward: float) -> None:
        """Take in a reward."""
        self._number += 1
        self._highest = max(self._highest, reward)
        if reward < self._lowest:
            self._lowest, self._times = reward, 0
        self._times += reward == self._lowest

    @property
    def value(self) -> float:
        """The lowest reward, as far as it is known."""
        is_known = self._number >= FEWEST and self._times > 1 and self._lowest < self._highest
        return self._lowest if is_known else 0.0


class LowestRewards:
    """The lowest rewards of sets of functions."""

    def __init__(self) -> None:
        self._by_functions: dict[tuple[str, ...], LowestReward] = {}

    def add(self, functions: Iterable[str], rewards: Iterable[float | None]) -> None:
        """Take in ``rewards`` that are sums of the scores of ``functions``."""
        key = tuple(sorted(functions))
        lowest = self._by_functions.get(key)
        if lowest is None:
            if len(self._by_functions) >= _MOST:
                return
            lowest = self._by_functions.setdefault(key, LowestReward())
        for reward in rewards:
            if reward is not None and math.isfinite(reward):
                lowest.add(reward)

    def lowest(self, functions: Iterable[str]) -> float:
        """Return the lowest reward that ``functions`` have given."""
        lowest = self._by_functions.get(tuple(sorted(functions)))
        return 0.0 if lowest is None else lowest.value

    def forget(self) -> None:
        """As if no reward had been given."""
        self._by_functions.clear()


#: Those of this process.
known = LowestRewards()
lifecycle.after_fork_in_child(known.forget)
