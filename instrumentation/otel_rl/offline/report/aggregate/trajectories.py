"""The samples of the run, from records with a row per sample: all counted, those kept that are worth a look.

A run has millions. Kept are failed and suspect ones, the slowest, those with the lowest and the highest reward, and
some of every part of the run. Each kind has a bound of its own, so that the page is bounded.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.offline.report.aggregate.statistics import EveryNth, Largest
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_rl.offline.reader import Log

#: Rows kept of each kind, and of all parts of the run together.
OF_A_KIND, OF_ALL_PARTS = 40, 80
#: Most groups whose rewards are compared; a group can lie in the records of several ranks.
_GROUPS = 50_000
_REASONS = 100


@dataclass(frozen=True, slots=True)
class Row:
    """One sample: its columns by attribute, its scores by reward function, and weights of these that are not 1."""

    iteration: int | None
    rank: int | None
    source: str
    columns: dict[str, Any]
    scores: dict[str, float]
    weights: dict[str, float]

    def get(self, name: str) -> Any:
        """The value of a column; None where it is not known."""
        return self.columns.get(name)

    def number(self, name: str) -> float | None:
        """The value of a column of numbers."""
        value = self.columns.get(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def is_failed(self) -> bool:
        """An error ended it, or its program gave it up, or something in it failed and its reward is zero."""
        return self.get(names.RL_ROLLOUT_STATUS) in (Status.FAILED, Status.CANCELLED) or bool(
            self.get(names.RL_ROLLOUT_SUSPECT)
        )


@dataclass(slots=True)
class _Group:
    """Rewards of a group: how many, the lowest and the highest."""

    number: int = 0
    lowest: float = math.inf
    highest: float = -math.inf


@dataclass(slots=True)
class Trajectories:
    """Counts of all samples, and the rows that are kept."""

    started: int = 0
    ended: int = 0
    trained: int = 0
    #: Samples of which it is known whether they were trained on.
    judged: int = 0
    suspect: int = 0
    #: Samples of which the program says whether they succeeded, and those that did.
    tried: int = 0
    succeeded: int = 0
    left_out: int = 0
    by_status: Counter[str] = field(default_factory=Counter)
    by_reason: Counter[str] = field(default_factory=Counter)
    #: Rewards of suspect samples count as zero in these two: sum and number of all rewards.
    rewards: float = 0.0
    rewarded: int = 0
    _groups: dict[tuple[tuple[int, ...], int | None, str], _Group] = field(default_factory=dict)
    _failed: Largest[Row] = field(default_factory=lambda: Largest(OF_A_KIND))
    _slowest: Largest[Row] = field(default_factory=lambda: Largest(OF_A_KIND))
    _lowest: Largest[Row] = field(default_factory=lambda: Largest(OF_A_KIND))
    _highest: Largest[Row] = field(default_factory=lambda: Largest(OF_A_KIND))
    _spread: EveryNth[Row] = field(default_factory=lambda: EveryNth(OF_ALL_PARTS))

    def add_log(self, log: Log) -> None:
        """Take in a record of trajectories; others are ignored."""
        if log.event != events.RL_TRAJECTORIES.name or not isinstance(log.body, dict):
            return
        self.started += _count(log.attributes.get(names.RL_TRAJECTORIES_STARTED))
        left_out = _count(log.attributes.get(names.RL_TRAJECTORIES_LEFT_OUT))
        self.left_out += left_out
        self.ended += left_out
        for row in _rows(log):
            self._add(row, log.process.attempt)

    def _add(self, row: Row, attempt: tuple[int, ...]) -> None:
        self.ended += 1
        status = str(row.get(names.RL_ROLLOUT_STATUS) or Status.FINISHED)
        self.by_status[status] += 1
        reason = row.get(names.RL_ROLLOUT_DISCARD_REASON)
        if reason and (reason in self.by_reason or len(self.by_reason) < _REASONS):
            self.by_reason[str(reason)] += 1
        trained = row.get(names.RL_ROLLOUT_TRAINED)
        self.judged += isinstance(trained, bool)
        self.trained += trained is True
        success = row.get(names.RL_ROLLOUT_SUCCESS)
        self.tried += isinstance(success, bool)
        self.succeeded += success is True
        self.suspect += bool(row.get(names.RL_ROLLOUT_SUSPECT))
        self._add_reward(row, attempt)
        if row.is_failed:
            self._failed.add(0.0, row)
        seconds = row.number(names.RL_ROLLOUT_SECONDS)
        if seconds is not None and math.isfinite(seconds):
            self._slowest.add(seconds, row)
        self._spread.add(row)

    def _add_reward(self, row: Row, attempt: tuple[int, ...]) -> None:
        reward = row.number(names.RL_ROLLOUT_REWARD)
        if reward is None or not math.isfinite(reward):
            return
        self.rewards += reward
        self.rewarded += 1
        self._lowest.add(-reward, row)
        self._highest.add(reward, row)
        key = attempt, row.iteration, str(row.get(names.RL_GROUP_ID))
        if row.get(names.RL_GROUP_ID) is None or (key not in self._groups and len(self._groups) >= _GROUPS):
            return
        group = self._groups.setdefault(key, _Group())
        group.number += 1
        group.lowest, group.highest = min(group.lowest, reward), max(group.highest, reward)

    @property
    def compared_groups(self) -> int:
        """Groups with several rewards."""
        return sum(1 for group in self._groups.values() if group.number > 1)

    @property
    def dead_groups(self) -> int:
        """Groups whose samples all got the same reward: their advantages are zero and they teach nothing."""
        return sum(1 for group in self._groups.values() if group.number > 1 and group.lowest == group.highest)

    def chosen(self) -> dict[str, Row]:
        """The rows that are kept, the failed ones first, in the order of their iterations, by a key of the page."""
        kinds = (self._failed, self._slowest, self._lowest, self._highest, self._spread)
        found = {id(row): row for kind in kinds for row in kind.items()}
        ordered = sorted(found.values(), key=_place)
        return {f"trajectory-{number}": row for number, row in enumerate(ordered, 1)}

    def traces(self, most: int) -> list[str]:
        """Traces of rows that are worth a look at their spans: failed ones, the slowest, those of the lowest reward."""
        kinds: tuple[Callable[[], list[Row]], ...] = (self._failed.items, self._slowest.items, self._lowest.items)
        rows = [row for turn in zip(*(kind()[:most] for kind in kinds), strict=False) for row in turn]
        rows += [row for kind in kinds for row in kind()]
        found = dict.fromkeys(str(trace) for row in rows if (trace := row.get(names.RL_ROLLOUT_TRACE_ID)))
        return list(found)[:most]


def as_json(found: Trajectories) -> dict[str, Any]:
    """All counts and the rows that are kept, for programs."""
    return {
        "started": found.started,
        "ended": found.ended,
        "by_status": dict(found.by_status),
        "discarded_because": dict(found.by_reason),
        "trained": found.trained if found.judged else None,
        "succeeded": found.succeeded if found.tried else None,
        "suspect": found.suspect,
        "groups": found.compared_groups,
        "dead_groups": found.dead_groups,
        "without_row": found.left_out,
        "rows": [
            {
                "step": row.iteration,
                "rank": row.rank,
                "source": row.source,
                **_finite(row.columns),
                "scores": row.scores,
                **({"weights": row.weights} if row.weights else {}),
            }
            for row in found.chosen().values()
        ],
    }


def _finite(columns: dict[str, Any]) -> dict[str, Any]:
    """Without what JSON has no form for."""
    return {key: _without_nan(value) for key, value in columns.items() if _without_nan(value) is not None}


def _without_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nan(one) for one in value]
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _place(row: Row) -> tuple[bool, bool, int, int, str]:
    return (
        not row.is_failed,
        row.iteration is None,
        row.iteration or 0,
        row.rank or 0,
        str(row.get(names.RL_ROLLOUT_ID)),
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _rows(log: Log) -> Iterator[Row]:
    """The rows of a record; a column that is no list, or too short, holds nothing."""
    columns = {str(key): values for key, values in log.body.items() if isinstance(values, list)}
    functions, scores = columns.pop(names.RL_REWARD_NAMES, []), columns.pop(names.RL_REWARD_SCORES, [])
    of_functions = {
        str(name): values for name, values in zip(functions, scores, strict=False) if isinstance(values, list)
    }
    weights = _weights(functions, columns.pop(names.RL_REWARD_WEIGHTS, []))
    iteration = log.attributes.get(names.RL_LOOP_ITERATION)
    source = str(log.attributes.get(names.RL_TRAJECTORIES_SOURCE) or "")
    for place in range(max(map(len, columns.values()), default=0)):
        yield Row(
            iteration if isinstance(iteration, int) else None,
            log.process.rank,
            source,
            {
                key: values[place]
                for key, values in columns.items()
                if place < len(values) and values[place] is not None
            },
            {
                name: values[place]
                for name, values in of_functions.items()
                if place < len(values) and isinstance(values[place], (int, float)) and math.isfinite(values[place])
            },
            weights,
        )


def _weights(functions: list[Any], weights: list[Any]) -> dict[str, float]:
    return {
        str(name): weight
        for name, weight in zip(functions, weights, strict=False)
        if isinstance(weight, (int, float)) and math.isfinite(weight) and weight != 1
    }
