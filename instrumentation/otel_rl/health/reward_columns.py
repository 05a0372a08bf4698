"""Inputs of the rules from the rows of ``rl.trajectories``, under the keys of TRL: the same code live and offline.

A finished rollout is one sample. It counts to the step that it names, or to the one in which it ended where it names
an earlier one. Samples of an evaluation have a mean of their own. Failed and discarded rollouts are no samples.

Of each step a few numbers per function and per group are kept until it has ended.
"""

from __future__ import annotations

from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.telemetry.open_trajectory import MAXIMUM_REWARDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

REWARD, DEVIATION, ZERO_VARIANCE, EVALUATION = "reward", "reward_std", "frac_reward_zero_std", "eval_reward"
SUCCESS = "success_rate"
#: Most steps that collect samples at once; of more, the one begun first is given up.
MAXIMUM_STEPS = 64
#: Most groups of a step; samples of further ones count in the means only.
MAXIMUM_GROUPS = 4096
#: Relative difference of rewards within a group that is rounding.
ROUNDING = 1e-6
#: Fewest samples that can be compared.
MINIMUM_SAMPLES = 2


class _Mean:
    """Mean and spread, by differences to the first number: the mean of equal numbers is theirs to the last digit."""

    __slots__ = ("_first", "_squares", "_sum", "count")

    def __init__(self, first: float) -> None:
        self._first = first
        self.count = 0
        self._sum = self._squares = 0.0

    def add(self, value: float) -> None:
        difference = value - self._first
        self.count += 1
        self._sum += difference
        self._squares += difference * difference

    @property
    def mean(self) -> float:
        return self._first + self._sum / self.count

    @property
    def deviation(self) -> float:
        """Standard deviation of a sample, as trainers log it."""
        return sqrt(max(self._squares - self._sum * self._sum / self.count, 0.0) / (self.count - 1))


class SampleSums:
    """Samples of one step, or of an evaluation in it."""

    def __init__(self) -> None:
        #: The reward, and whether rollouts that say so succeeded: 1 or 0.
        self._totals: dict[str, _Mean] = {}
        self._functions: dict[str, _Mean] = {}
        self._metrics: dict[str, _Mean] = {}
        #: Group -> samples, lowest and highest reward.
        self._groups: dict[str, tuple[int, float, float]] = {}

    def add(self, body: Mapping[str, Any], places: Sequence[int]) -> None:
        """Add the rows of a record that lie at these places."""
        groups = _column(body, attributes.RL_GROUP_ID)
        for place, reward in _numbers(_column(body, attributes.RL_ROLLOUT_REWARD), places):
            _add_to(self._totals, REWARD, reward)
            if place < len(groups) and groups[place] is not None:
                self._add_to_group(str(groups[place]), reward)
        successes = _column(body, attributes.RL_ROLLOUT_SUCCESS)
        for place in places:
            if place < len(successes) and isinstance(successes[place], bool):
                _add_to(self._totals, SUCCESS, float(successes[place]))
        for means, names, values in (
            (self._functions, attributes.RL_REWARD_NAMES, attributes.RL_REWARD_SCORES),
            (self._metrics, attributes.RL_ROLLOUT_METRIC_NAMES, attributes.RL_ROLLOUT_METRIC_VALUES),
        ):
            for name, column in zip(_column(body, names), _column(body, values), strict=False):
                for _, value in _numbers(column, places):
                    _add_to(means, str(name), value)

    def _add_to_group(self, group: str, reward: float) -> None:
        if group in self._groups or len(self._groups) < MAXIMUM_GROUPS:
            count, low, high = self._groups.get(group, (0, reward, reward))
            self._groups[group] = (count + 1, min(low, reward), max(high, reward))

    def values(self) -> dict[str, float]:
        """Return the means of the samples by key."""
        means = {f"rewards/{name}/mean": mean.mean for name, mean in self._functions.items()}
        for name, metric in self._metrics.items():
            means |= {f"rollout/{name}/mean": metric.mean, f"rollout/{name}/sum": metric.mean * metric.count}
        means |= {key: mean.mean for key, mean in self._totals.items()}
        reward = self._totals.get(REWARD)
        if reward is not None and reward.count >= MINIMUM_SAMPLES:
            means[DEVIATION] = reward.deviation
        compared = [(low, high) for count, low, high in self._groups.values() if count >= MINIMUM_SAMPLES]
        if compared:
            alike = [high - low <= ROUNDING * max(abs(low), abs(high), 1.0) for low, high in compared]
            means[ZERO_VARIANCE] = sum(alike) / len(alike)
        return means

    def evaluation_values(self) -> dict[str, float]:
        """Return the mean reward, where the samples are those of an evaluation."""
        return {EVALUATION: self._totals[REWARD].mean} if REWARD in self._totals else {}


class RewardSteps:
    """Samples of the steps of one loop."""

    def __init__(self) -> None:
        #: Step and whether it is an evaluation -> its samples.
        self._steps: dict[tuple[int, bool], SampleSums] = {}
        #: The step that ended last.
        self._last = -1

    def add(self, body: Mapping[str, Any], iteration: int | None, ended_in: int) -> None:
        """Add a record of rollouts that name ``iteration`` and ended in step ``ended_in``."""
        step = ended_in if iteration is None else max(iteration, ended_in)
        evaluations = _column(body, attributes.RL_ROLLOUT_EVALUATION)
        places: dict[bool, list[int]] = {}
        for place, status in enumerate(_column(body, attributes.RL_ROLLOUT_STATUS)):
            if status == Status.FINISHED:
                is_evaluation = place < len(evaluations) and evaluations[place] is True
                places.setdefault(is_evaluation, []).append(place)
        for is_evaluation, of_kind in places.items():
            key = step, is_evaluation
            while key not in self._steps and len(self._steps) >= MAXIMUM_STEPS:
                del self._steps[next(iter(self._steps))]
            self._steps.setdefault(key, SampleSums()).add(body, of_kind)

    def end(self, iteration: int) -> dict[str, float]:
        """End a step and return its means; rows that came after the end of an earlier step count to this one.

        A number that is not higher than the one before begins the steps again: samples of later steps are forgotten.
        """
        if iteration <= self._last:
            self._steps = {key: sums for key, sums in self._steps.items() if key[0] <= iteration}
        self._last = iteration
        values: dict[str, float] = {}
        for key in sorted(key for key in self._steps if key[0] <= iteration):
            sums = self._steps.pop(key)
            values |= sums.evaluation_values() if key[1] else sums.values()
        return values


def _add_to(means: dict[str, _Mean], name: str, value: float) -> None:
    mean = means.get(name)
    if mean is None:
        if len(means) >= MAXIMUM_REWARDS:
            return
        mean = means[name] = _Mean(value)
    mean.add(value)


def _column(body: Mapping[str, Any], key: str) -> Sequence[Any]:
    column = body.get(key)
    return column if isinstance(column, list) else ()


def _numbers(column: Any, places: Iterable[int]) -> Iterator[tuple[int, float]]:
    """Yield the finite numbers of a column at these places."""
    if not isinstance(column, list):
        return
    for place in places:
        value = column[place] if place < len(column) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value):
            yield place, float(value)
