"""What a run came to: of each logged key the last value and, where it is known which way is better, the best one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from otel_rl.core import logged_keys
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlAlgorithmValues as Algorithm
from otel_rl.telemetry.attribute_values import MAXIMUM_KEY_LENGTH, PlainBody, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Most keys with a direction, and most without one.
MAXIMUM_KEYS = 100

#: With rewards, `loss` is that of a policy gradient: it may stay near zero, or rise while the policy learns. That of a
#: value function follows a target that moves.
_OF_REWARDS = frozenset(
    {
        *(Algorithm.GRPO, Algorithm.PPO, Algorithm.RLOO),
        *("a2c", "a3c", "trpo", "reinforce", "maskable_ppo", "maskableppo", "recurrent_ppo", "recurrentppo"),
        *("dqn", "qrdqn", "sac", "td3", "ddpg", "tqc"),
        *("impala", "appo", "crossq", "ars"),
    }
)


def direction(key: str, algorithm: str | None, *, has_rewards: bool = False) -> int:
    """Return 1 where a higher value of the key is better, -1 where a lower one is, 0 where that is not known.

    ``has_rewards`` says that a run without a known algorithm learns from rewards, by its other keys.
    """
    return logged_keys.direction(key, is_of_rewards=algorithm in _OF_REWARDS or has_rewards)


class LoggedResult:
    """One key; ``best`` is None where it has no direction, or no finite value."""

    __slots__ = ("best", "best_step", "direction", "last", "last_step")

    def __init__(self, direction: int) -> None:
        self.direction = direction
        self.last: float = math.nan
        self.best: float | None = None
        self.last_step: int | None = None
        self.best_step: int | None = None

    def judge_no_more(self) -> None:
        """Forget the best value: it has turned out that neither direction is better."""
        self.direction, self.best, self.best_step = 0, None, None

    def add(self, step: int | None, value: float) -> None:
        """Take in a value; of several that are equally good the first is the best."""
        self.last, self.last_step = value, step
        if self.direction and math.isfinite(value):
            best = self.best
            if best is None or (value - best) * self.direction > 0:
                self.best, self.best_step = value, step


class Results:
    """The keys that one process has logged."""

    def __init__(self) -> None:
        #: Whether it learns from rewards, as its keys say.
        self._has_rewards = False
        self._of_key: dict[str, LoggedResult] = {}
        #: Keys with a direction, and keys without one.
        self._numbers = {True: 0, False: 0}
        self._left_out: set[str] = set()

    def add(self, step: int | None, values: Mapping[str, Any], algorithm: str | None) -> None:
        """Take in a log call; what is no number is ignored."""
        for key, value in values.items():
            if type(value) is float or type(value) is int:
                result = self._of_key.get(key) or self._new(key, algorithm)
                if result is not None:
                    result.add(step, value)

    def _new(self, key: str, algorithm: str | None) -> LoggedResult | None:
        if key in self._left_out:
            return None
        if not algorithm and not self._has_rewards and logged_keys.is_of_rewards(key):
            self._has_rewards = True
            for name, result in self._of_key.items():
                if result.direction and not direction(name, None, has_rewards=True):
                    result.judge_no_more()
        known = direction(key, algorithm, has_rewards=self._has_rewards)
        if self._numbers[bool(known)] >= MAXIMUM_KEYS:
            if len(self._left_out) < MAXIMUM_KEYS:
                self._left_out.add(key)
            return None
        self._numbers[bool(known)] += 1
        result = self._of_key[key] = LoggedResult(known)
        return result

    @property
    def left_out(self) -> int:
        """How many keys had no room; no more than :data:`MAXIMUM_KEYS` are counted."""
        return len(self._left_out)

    def items(self) -> list[tuple[str, LoggedResult]]:
        """Return the keys, those with a direction first."""
        return sorted(self._of_key.items(), key=lambda item: not item[1].direction)

    def as_columns(self) -> PlainBody:
        """Return a list per attribute, with a value per key; empty where nothing was logged."""
        items = self.items()
        columns: dict[str, Iterable[Any]] = {
            attributes.RL_RUN_RESULT_KEY: (text(key, MAXIMUM_KEY_LENGTH) for key, _ in items),
            attributes.RL_RUN_RESULT_LAST: (result.last for _, result in items),
            attributes.RL_RUN_RESULT_LAST_STEP: (result.last_step for _, result in items),
            attributes.RL_RUN_RESULT_BEST: (result.best for _, result in items),
            attributes.RL_RUN_RESULT_BEST_STEP: (result.best_step for _, result in items),
        }
        return PlainBody({name: list(values) for name, values in columns.items()} if items else {})
