"""Groups of samples: which teach nothing, what rewards after a failure do to others, and whether advantages are right.

The advantage of a sample is computed again from the recorded rewards, where its trainer's formula is known. A run has
millions of samples: at most :data:`SAMPLES` are kept, those that come first.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.subjects.trajectories import advantages
from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import RlTrajectoriesSourceValues as Source

if TYPE_CHECKING:
    from otel_rl.report.core.trajectory_rows import Row

#: Most groups and samples that are compared; a group can lie in the records of several ranks.
GROUPS, SAMPLES = 50_000, 200_000
_FEWEST = 2
NO_ADVANTAGE = "none was recorded"

#: Attempt, iteration and name of a group.
Key = tuple[tuple[int, ...], int | None, str]


class Difference(NamedTuple):
    """A sample whose advantage is not what the recorded rewards give."""

    iteration: int | None
    group: str
    sample: str
    rank: int | None
    recorded: float
    computed: float
    estimator: str
    #: A formula that fits the group, ``""`` for none.
    fits: str


class Checked(NamedTuple):
    """How many advantages were computed again, and how many differ."""

    samples: int
    differing: int
    first: Difference | None
    #: Samples of groups with an advantage that could not be computed again.
    unknown: int
    #: Samples with an advantage and without a reward, or without a group.
    without_reward: int
    without_group: int
    #: Samples with an advantage, of groups in which rewards came after it.
    rewarded_later: int = 0

    @property
    def unobserved(self) -> str:
        """Why none could be computed again; empty where some were."""
        if self.samples:
            return ""
        if self.without_reward:
            return "rewards of the samples are not known"
        if self.rewarded_later:
            return "rewards came after them"
        if self.unknown:
            return "their formula is not known"
        return "groups of the samples are not known" if self.without_group else NO_ADVANTAGE


class IterationGroups(NamedTuple):
    """Groups and tokens of an iteration."""

    iteration: int | None
    groups: int
    dead: int
    tokens: int
    effective: int


class Shift(NamedTuple):
    """What rewards after a failure do to the other samples of their groups: how many, and by how much on average."""

    samples: int
    advantage: float


@dataclass(slots=True)
class _SampleGroup:
    """One group: rewards of all samples, and more of those that are kept."""

    number: int = 0
    lowest: float = math.inf
    highest: float = -math.inf
    #: Output tokens of samples that are trained on, and of those whose advantage is zero.
    tokens: int = 0
    idle_tokens: int = 0
    size: int | None = None
    #: None before the first sample, "" where samples do not agree or the formula is not known.
    estimator: str | None = None
    is_whole: bool = True
    #: A reward came after an advantage was told, so that the rewards of then are not known.
    has_later_rewards: bool = False
    suspects: int = 0
    rewards: array[float] = field(default_factory=lambda: array("d"))
    recorded: array[float] = field(default_factory=lambda: array("d"))
    samples: list[tuple[str, int | None]] = field(default_factory=list)
    is_suspect: bytearray = field(default_factory=bytearray)

    @property
    def is_dead(self) -> bool:
        return self.number >= _FEWEST and self.lowest == self.highest


class Groups:
    """All groups of the run. What they say is computed once, when it is asked for first."""

    def __init__(self) -> None:
        self._groups: dict[Key, _SampleGroup] = {}
        self._kept = 0
        self._without_reward = self._without_group = 0

    def add(self, row: Row, attempt: tuple[int, ...]) -> None:
        """Take in a sample; one without a group is in none."""
        name = row.get(names.RL_GROUP_ID)
        reward, advantage = row.number(names.RL_ROLLOUT_REWARD), row.number(names.RL_ROLLOUT_ADVANTAGE)
        if advantage is not None and math.isfinite(advantage):
            self._without_reward += reward is None or not math.isfinite(reward)
            self._without_group += name is None
        if name is None or (reward is None and advantage is None):
            return
        key = attempt, row.iteration, str(name)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= GROUPS:
                return
            group = self._groups[key] = _SampleGroup()
        if reward is None or not math.isfinite(reward):
            # Whether the trainer has counted it as something, nobody knows.
            group.is_whole = False
            return
        self._add(group, row, reward, math.nan if advantage is None else advantage)

    def _add(self, group: _SampleGroup, row: Row, reward: float, advantage: float) -> None:
        group.number += 1
        group.has_later_rewards |= row.has_later_reward
        group.lowest, group.highest = min(group.lowest, reward), max(group.highest, reward)
        tokens = row.number(names.RL_ROLLOUT_OUTPUT_TOKENS)
        if tokens is not None and math.isfinite(tokens) and row.get(names.RL_ROLLOUT_TRAINED) is True:
            group.tokens += int(tokens)
            group.idle_tokens += int(tokens) if advantage == 0 else 0
        size, estimator = row.record.get(names.RL_GROUP_SIZE), row.record.get(names.RL_ADVANTAGE_ESTIMATOR)
        estimator = estimator if estimator in advantages.ESTIMATORS else ""
        group.size = size if isinstance(size, int) else group.size
        group.estimator = estimator if group.estimator in (None, estimator) else ""
        suspect = bool(row.get(names.RL_ROLLOUT_SUSPECT))
        group.suspects += suspect
        if self._kept >= SAMPLES:
            group.is_whole = False
            return
        self._kept += 1
        group.rewards.append(reward)
        group.recorded.append(advantage)
        group.samples.append((str(row.get(names.RL_ROLLOUT_ID)), row.rank))
        group.is_suspect.append(suspect)
        if row.source == Source.TRAINER and not isinstance(size, int):
            group.is_whole = False

    # -- what they say ---------------------------------------------------------------------------------------------

    @property
    def compared(self) -> int:
        """Groups with several rewards."""
        return sum(1 for group in self._groups.values() if group.number >= _FEWEST)

    @property
    def dead(self) -> int:
        """Groups whose samples all got the same reward: their advantages are zero and they teach nothing."""
        return sum(1 for group in self._groups.values() if group.is_dead)

    @property
    def tokens(self) -> int:
        """Output tokens of the samples that were trained on."""
        return sum(step.tokens for step in self.steps)

    @property
    def effective_share(self) -> float | None:
        """Share of these tokens with an advantage that is not zero; None where there are none."""
        return sum(step.effective for step in self.steps) / self.tokens if self.tokens else None

    @cached_property
    def steps(self) -> list[IterationGroups]:
        """Groups and tokens by iteration, in order; those of no iteration come last."""
        by_step: dict[tuple[tuple[int, ...], int | None], list[int]] = {}
        for (attempt, iteration, _), group in self._groups.items():
            sums = by_step.setdefault((attempt, iteration), [0, 0, 0, 0])
            idle = group.tokens if group.is_dead else group.idle_tokens
            added = group.number >= _FEWEST, group.is_dead, group.tokens, group.tokens - idle
            for place, number in enumerate(added):
                sums[place] += int(number)
        ordered = sorted(by_step, key=lambda place: (place[0], place[1] is None, place[1] or 0))
        return [IterationGroups(place[1], *by_step[place]) for place in ordered]

    @cached_property
    def shift(self) -> Shift:
        """How much higher the advantages of others are, since rewards after a failure lower the mean of their groups.

        In units of the reward, before anything is divided by a standard deviation.
        """
        samples, total = 0, 0.0
        for group in self._groups.values():
            others = [reward for reward, suspect in zip(group.rewards, group.is_suspect, strict=True) if not suspect]
            if group.suspects and others and group.is_whole:
                samples += len(others)
                total += math.fsum(others) - len(others) * math.fsum(group.rewards) / len(group.rewards)
        return Shift(samples, total / samples if samples else 0.0)

    @cached_property
    def checked(self) -> Checked:
        """Advantages, computed again for whole groups whose formula is known."""
        batches = self._batches()
        samples = differing = unknown = later = 0
        first: Difference | None = None
        for key in sorted(self._groups, key=lambda key: (key[0], key[1] is None, key[1] or 0)):
            group = self._groups[key]
            known = sum(1 for advantage in group.recorded if math.isfinite(advantage))
            batch = batches.get(key[:2])
            if not _is_checkable(group) or (group.estimator in advantages.OF_A_BATCH and batch is None):
                unknown += known
                later += known if group.has_later_rewards else 0
                continue
            samples += known
            wrong = advantages.differing(str(group.estimator), group.rewards, group.recorded, batch)
            differing += len(wrong)
            if wrong and first is None:
                first = _difference(key, group, wrong[0], batch)
        return Checked(samples, differing, first, unknown, self._without_reward, self._without_group, later)

    def _batches(self) -> dict[tuple[tuple[int, ...], int | None], list[float]]:
        """Return all rewards of each iteration whose groups are whole, where a formula needs them."""
        batches: dict[tuple[tuple[int, ...], int | None], list[float]] = {}
        broken = set()
        for key, group in self._groups.items():
            if group.estimator in advantages.OF_A_BATCH:
                batches.setdefault(key[:2], []).extend(group.rewards)
                if not _is_checkable(group):
                    broken.add(key[:2])
        return {place: rewards for place, rewards in batches.items() if place not in broken}


def _is_checkable(group: _SampleGroup) -> bool:
    return bool(
        group.is_whole
        and not group.has_later_rewards
        and group.estimator
        and (group.size is None or group.size == group.number)
        and all(map(math.isfinite, group.recorded))
    )


def _difference(key: Key, group: _SampleGroup, place: int, batch: list[float] | None) -> Difference:
    estimator = str(group.estimator)
    computed = advantages.compute(estimator, group.rewards, batch)[place]
    others = [formula for formula in advantages.ESTIMATORS if formula not in (estimator, *advantages.OF_A_BATCH)]
    fits = (formula for formula in others if not advantages.differing(formula, group.rewards, group.recorded, None))
    sample, rank = group.samples[place]
    _, iteration, name = key
    return Difference(iteration, name, sample, rank, group.recorded[place], computed, estimator, next(fits, ""))
