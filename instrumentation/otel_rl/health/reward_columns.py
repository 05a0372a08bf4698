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
    from collections.abc import Iterable, Iterator, Mapping

REWARD, DEVIATION, ZERO_VARIANCE, EVALUATION = "reward", "reward_std", "frac_reward_zero_std", "eval_reward"
SUCCESS = "success_rate"
#: Share of the samples without a score, of a loop that scores any in its rollouts.
UNSCORED = "unscored_ratio"
#: Mean of the versions by which the weights that answered the samples are behind.
BEHIND = "versions_behind"
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

    def include(self, other: _Mean) -> None:
        """Add the numbers of ``other``."""
        difference = other._first - self._first
        self.count += other.count
        self._sum += other._sum + other.count * difference
        self._squares += other._squares + difference * (2 * other._sum + other.count * difference)

    @property
    def mean(self) -> float:
        return self._first + self._sum / self.count

    @property
    def deviation(self) -> float:
        """Standard deviation of a sample, as trainers log it."""
        return sqrt(max(self._squares - self._sum * self._sum / self.count, 0.0) / (self.count - 1))


class SampleSums:
    """The samples of one step."""

    def __init__(self) -> None:
        #: Rewards, those of an evaluation in the step, and whether rollouts succeeded: 1 or 0.
        self._totals: dict[str, _Mean] = {}
        self._functions: dict[str, _Mean] = {}
        self._metrics: dict[str, _Mean] = {}
        self._samples = 0
        #: Group -> samples, lowest and highest reward.
        self._groups: dict[str, tuple[int, float, float]] = {}
        self._has_groups = True

    def add(self, body: Mapping[str, Any]) -> None:
        """Add the finished rollouts of a record."""
        finished = {place for place, status in _values(body, attributes.RL_ROLLOUT_STATUS) if status == Status.FINISHED}
        evaluated = {place for place, value in _values(body, attributes.RL_ROLLOUT_EVALUATION) if value is True}
        samples = finished - evaluated
        self._samples += len(samples)
        groups = dict(_values(body, attributes.RL_GROUP_ID))
        for place, reward in _numbers(body.get(attributes.RL_ROLLOUT_REWARD), finished):
            _add_to(self._totals, REWARD if place in samples else EVALUATION, reward)
            if place in samples and groups.get(place) is not None:
                self._add_to_group(str(groups[place]), reward)
        for place, success in _values(body, attributes.RL_ROLLOUT_SUCCESS):
            if place in samples and isinstance(success, bool):
                _add_to(self._totals, SUCCESS, float(success))
        for _, behind in _numbers(body.get(attributes.RL_ROLLOUT_VERSIONS_BEHIND), samples):
            _add_to(self._totals, BEHIND, behind)
        for means, names, columns in (
            (self._functions, attributes.RL_REWARD_NAMES, attributes.RL_REWARD_SCORES),
            (self._metrics, attributes.RL_ROLLOUT_METRIC_NAMES, attributes.RL_ROLLOUT_METRIC_VALUES),
        ):
            for (_, name), (_, column) in zip(_values(body, names), _values(body, columns), strict=False):
                for _, value in _numbers(column, samples):
                    _add_to(means, str(name), value)

    def _add_to_group(self, group: str, reward: float) -> None:
        if group in self._groups or (self._has_groups and len(self._groups) < MAXIMUM_GROUPS):
            count, low, high = self._groups.get(group, (0, reward, reward))
            self._groups[group] = (count + 1, min(low, reward), max(high, reward))

    @property
    def size(self) -> int:
        """Cells that it takes."""
        return len(self._totals) + len(self._functions) + len(self._metrics) + len(self._groups)

    def leave_groups(self) -> None:
        """Forget the groups for good, which take most of the cells: a part of them would tell something false."""
        self._has_groups = False
        self._groups = {}

    def include(self, other: SampleSums) -> None:
        """Add the samples of ``other``, of the same step."""
        self._samples += other._samples
        for own, others in (
            (self._totals, other._totals),
            (self._functions, other._functions),
            (self._metrics, other._metrics),
        ):
            for name, mean in others.items():
                if name in own:
                    own[name].include(mean)
                elif len(own) < MAXIMUM_REWARDS:
                    own[name] = mean
        if not other._has_groups:
            self.leave_groups()
        for group, (count, low, high) in other._groups.items() if self._has_groups else ():
            if group in self._groups or len(self._groups) < MAXIMUM_GROUPS:
                known, lowest, highest = self._groups.get(group, (0, low, high))
                self._groups[group] = (known + count, min(lowest, low), max(highest, high))

    def unscored(self) -> float | None:
        """Return the share of the samples without a finite reward; None where there are no samples."""
        reward = self._totals.get(REWARD)
        return 1 - (0 if reward is None else reward.count) / self._samples if self._samples else None

    def values(self) -> dict[str, float]:
        """Return the means of the samples by key."""
        means = {f"rewards/{name}/mean": mean.mean for name, mean in self._functions.items()}
        for name, metric in self._metrics.items():
            means |= {f"rollout/{name}/mean": metric.mean, f"rollout/{name}/sum": metric.mean * metric.count}
        means |= {key: mean.mean for key, mean in self._totals.items()}
        success = self._totals.get(SUCCESS)
        if success is not None and success.mean == 1 and success.count < self._samples:
            # Said of successes only: their mean is no rate.
            del means[SUCCESS]
        reward = self._totals.get(REWARD)
        if reward is not None and reward.count >= MINIMUM_SAMPLES:
            means[DEVIATION] = reward.deviation
        compared = [(low, high) for count, low, high in self._groups.values() if count >= MINIMUM_SAMPLES]
        if compared:
            alike = [high - low <= ROUNDING * max(abs(low), abs(high), 1.0) for low, high in compared]
            means[ZERO_VARIANCE] = sum(alike) / len(alike)
        return means


class RewardSteps:
    """Samples of the steps of one loop."""

    def __init__(self) -> None:
        self._steps: dict[int, SampleSums] = {}
        #: The step that ended last.
        self._last = -1
        #: Whether any sample had a reward: others are scored elsewhere.
        self._is_scored = False

    def add(self, body: Mapping[str, Any], iteration: int | None, ended_in: int) -> None:
        """Add a record of rollouts that name ``iteration`` and ended in step ``ended_in``."""
        step = step_of(iteration, ended_in)
        while step not in self._steps and len(self._steps) >= MAXIMUM_STEPS:
            del self._steps[next(iter(self._steps))]
        self._steps.setdefault(step, SampleSums()).add(body)

    def end(self, iteration: int) -> dict[str, float]:
        """End a step and return its means; rows that come later are left out.

        A number that is not higher than the one before begins the steps again: samples of later steps are forgotten.
        """
        sums = self._steps.get(iteration)
        begins_again = iteration <= self._last
        self._steps = {} if begins_again else {step: later for step, later in self._steps.items() if step > iteration}
        self._last = iteration
        return {} if sums is None else self.means(sums)

    def means(self, sums: SampleSums) -> dict[str, float]:
        """Return the means of a step of this loop, the steps before it first."""
        means = sums.values()
        self._is_scored = self._is_scored or REWARD in means
        unscored = sums.unscored() if self._is_scored else None
        return means if unscored is None else {**means, UNSCORED: unscored}


def step_of(iteration: int | None, ended_in: int) -> int:
    """Return the step that rollouts count to which name ``iteration`` and ended in step ``ended_in``."""
    return ended_in if iteration is None else max(iteration, ended_in)


def _add_to(means: dict[str, _Mean], name: str, value: float) -> None:
    mean = means.get(name)
    if mean is None:
        if len(means) >= MAXIMUM_REWARDS:
            return
        mean = means[name] = _Mean(value)
    mean.add(value)


def _values(body: Mapping[str, Any], key: str) -> Iterable[tuple[int, Any]]:
    """Return the values of a column with their places."""
    column = body.get(key)
    return enumerate(column) if isinstance(column, list) else ()


def _numbers(column: Any, places: set[int]) -> Iterator[tuple[int, float]]:
    """Yield the finite numbers of a column at these places, with their places."""
    for place, value in enumerate(column) if isinstance(column, list) else ():
        if place in places and isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value):
            yield place, float(value)
