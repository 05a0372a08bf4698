"""Groups of samples: which teach nothing, what rewards after a failure do to others, and whether advantages are right.

The advantage of a sample is computed again from the recorded rewards, where its trainer's formula is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.report.core.collected import asked_once
from otel_rl.report.subjects.trajectories import advantages
from otel_rl.semconv.attributes import RlTrajectoriesSourceValues as Source

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected

_FEWEST = 2
NO_ADVANTAGE = "none was recorded"
_SAMPLES = """
SELECT attempt, step, group_id, reward, advantage, trained, output_tokens, group_size, estimator, suspect,
       has_later_reward, source, id, rank
FROM sample JOIN process USING (process)
WHERE group_id IS NOT NULL AND (reward IS NOT NULL OR advantage IS NOT NULL)
ORDER BY attempt, step IS NULL, step, group_id, sample"""
_WITHOUT = """
SELECT coalesce(sum(reward IS NULL), 0), coalesce(sum(group_id IS NULL), 0) FROM sample WHERE advantage IS NOT NULL"""


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


@dataclass(slots=True)
class Checked:
    """How many advantages were computed again, and how many differ."""

    samples: int = 0
    differing: int = 0
    first: Difference | None = None
    #: Samples of groups with an advantage that could not be computed again.
    unknown: int = 0
    #: Samples with an advantage and without a reward, or without a group.
    without_reward: int = 0
    without_group: int = 0
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


@dataclass(slots=True)
class Shift:
    """What rewards after a failure do to the other samples of their groups: how many, and by how much on average.

    In units of the reward, before anything is divided by a standard deviation.
    """

    samples: int = 0
    total: float = 0.0

    @property
    def advantage(self) -> float:
        """How much higher the advantages of others are, since those rewards lower the mean of their groups."""
        return self.total / self.samples if self.samples else 0.0


@dataclass(slots=True)
class Groups:
    """What all groups of the run say; steps are in order, those of no iteration come last."""

    steps: list[IterationGroups] = field(default_factory=list)
    shift: Shift = field(default_factory=Shift)
    checked: Checked = field(default_factory=Checked)

    @property
    def compared(self) -> int:
        """Groups with several rewards."""
        return sum(step.groups for step in self.steps)

    @property
    def dead(self) -> int:
        """Groups whose samples all got the same reward: their advantages are zero and they teach nothing."""
        return sum(step.dead for step in self.steps)

    @property
    def tokens(self) -> int:
        """Output tokens of the samples that were trained on."""
        return sum(step.tokens for step in self.steps)

    @property
    def effective(self) -> int:
        """Those of samples with an advantage that is not zero."""
        return sum(step.effective for step in self.steps)

    @property
    def effective_share(self) -> float | None:
        """Share of these tokens with an advantage that is not zero; None where there are none."""
        return self.effective / self.tokens if self.tokens else None


class _Group:
    """The samples of one group; of those without a reward it is not known as what the trainer has counted them."""

    def __init__(self, name: str, rows: list[Any]) -> None:
        self.name = name
        self.rows = [row for row in rows if row["reward"] is not None]
        self.rewards = [row["reward"] for row in self.rows]
        self.recorded = [math.nan if row["advantage"] is None else row["advantage"] for row in self.rows]
        self.known = sum(map(math.isfinite, self.recorded))
        self.is_compared = len(self.rewards) >= _FEWEST
        self.is_dead = self.is_compared and min(self.rewards) == max(self.rewards)
        self.has_later_rewards = any(row["has_later_reward"] for row in self.rows)
        estimators = {row["estimator"] if row["estimator"] in advantages.ESTIMATORS else "" for row in self.rows}
        self.estimator = estimators.pop() if len(estimators) == 1 else ""
        sizes = [row["group_size"] for row in self.rows if row["group_size"] is not None]
        has_sizes = all(row["source"] != Source.TRAINER or row["group_size"] is not None for row in self.rows)
        self.is_whole = len(self.rows) == len(rows) and has_sizes
        self.is_checkable = (
            self.is_whole
            and not self.has_later_rewards
            and bool(self.estimator)
            and (not sizes or sizes[-1] == len(self.rewards))
            and self.known == len(self.recorded)
        )

    def tokens(self) -> tuple[int, int]:
        """Return the output tokens of samples that were trained on, and of those with an advantage that is not zero."""
        trained = [row for row in self.rows if row["trained"] and row["output_tokens"] is not None]
        effective = () if self.is_dead else (row for row in trained if row["advantage"] != 0)
        return sum(int(row["output_tokens"]) for row in trained), sum(int(row["output_tokens"]) for row in effective)


@asked_once
def of_run(collected: Collected) -> Groups:
    """Return what the groups of the run say."""
    groups, tables = Groups(), collected.tables
    [(groups.checked.without_reward, groups.checked.without_group)] = tables.rows(_WITHOUT)
    for (_, iteration), rows in groupby(tables.stream(_SAMPLES), lambda row: (row["attempt"], row["step"])):
        of_step = [_Group(name, list(of_group)) for name, of_group in groupby(rows, lambda row: row["group_id"])]
        tokens, effective = map(sum, zip(*(group.tokens() for group in of_step), strict=True))
        compared, dead = (sum(getattr(group, what) for group in of_step) for what in ("is_compared", "is_dead"))
        groups.steps.append(IterationGroups(iteration, compared, dead, tokens, effective))
        for group in of_step:
            _add_shift(groups.shift, group)
        _check(groups.checked, iteration, of_step)
    return groups


def _add_shift(shift: Shift, group: _Group) -> None:
    others = [row["reward"] for row in group.rows if not row["suspect"]]
    if others and len(others) < len(group.rows) and group.is_whole:
        shift.samples += len(others)
        shift.total += math.fsum(others) - len(others) * math.fsum(group.rewards) / len(group.rewards)


def _check(checked: Checked, iteration: int | None, of_step: list[_Group]) -> None:
    """Compute the advantages of whole groups again whose formula is known."""
    of_batch = [group for group in of_step if group.estimator in advantages.OF_A_BATCH]
    is_batch_known = all(group.is_checkable for group in of_batch)
    batch = [reward for group in of_batch for reward in group.rewards] if is_batch_known else None
    for group in of_step:
        if not group.is_checkable or (group.estimator in advantages.OF_A_BATCH and batch is None):
            checked.unknown += group.known
            checked.rewarded_later += group.known if group.has_later_rewards else 0
            continue
        checked.samples += group.known
        wrong = advantages.differing(group.estimator, group.rewards, group.recorded, batch)
        checked.differing += len(wrong)
        if wrong and checked.first is None:
            checked.first = _difference(iteration, group, wrong[0], batch)


def _difference(iteration: int | None, group: _Group, place: int, batch: list[float] | None) -> Difference:
    computed = advantages.compute(group.estimator, group.rewards, batch)[place]
    others = [formula for formula in advantages.ESTIMATORS if formula not in (group.estimator, *advantages.OF_A_BATCH)]
    fits = (formula for formula in others if not advantages.differing(formula, group.rewards, group.recorded, None))
    row = group.rows[place]
    return Difference(
        iteration, group.name, str(row["id"]), row["rank"], group.recorded[place], computed, group.estimator,
        next(fits, ""),
    )  # fmt: skip
