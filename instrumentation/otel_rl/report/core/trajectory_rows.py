"""The samples of a record, one by one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_rl.store.reader import Log

#: Column of readers: whether a reward of the row came after its advantage was told.
LATER_REWARD = "has_later_reward"


@dataclass(frozen=True, slots=True)
class Row:
    """One sample: its columns by attribute, its scores by reward function, and weights of these that are not 1.

    A weight is None where the samples of the record have several.

    ``metrics`` are values that the program has named.
    """

    iteration: int | None
    rank: int | None
    source: str
    columns: dict[str, Any]
    scores: dict[str, float]
    weights: dict[str, float | None]
    metrics: dict[str, float]
    #: Attributes of its record.
    record: Mapping[str, Any]
    #: A reward came after its advantage was told, which is of the rewards before.
    has_later_reward: bool = False

    def get(self, name: str) -> Any:
        """Return the value of a column, or None."""
        return self.columns.get(name)

    def number(self, name: str) -> float | None:
        """Return the value of a column of numbers, or None."""
        value = self.columns.get(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def is_failed(self) -> bool:
        """An error ended it, or its program gave it up, or something in it failed and its reward is the lowest."""
        return self.get(names.RL_ROLLOUT_STATUS) in (Status.FAILED, Status.CANCELLED) or bool(
            self.get(names.RL_ROLLOUT_SUSPECT)
        )

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs, without values that JSON cannot hold."""
        columns = {name: known for name, value in self.columns.items() if (known := _without_nan(value)) is not None}
        extra = {"weights": self.weights, "metrics": self.metrics}
        return {
            "step": self.iteration,
            "rank": self.rank,
            "source": self.source,
            **columns,
            "scores": self.scores,
            **{key: value for key, value in extra.items() if value},
        }


def rows(log: Log) -> Iterator[Row]:
    """Return the rows of a record; a column that is no list, or too short, holds nothing."""
    columns = {str(key): values for key, values in log.body.items() if isinstance(values, list)}
    functions = columns.get(names.RL_REWARD_NAMES, [])
    scores = _named(columns, names.RL_REWARD_NAMES, names.RL_REWARD_SCORES)
    metrics = _named(columns, names.RL_ROLLOUT_METRIC_NAMES, names.RL_ROLLOUT_METRIC_VALUES)
    weights = _weights(functions, columns.pop(names.RL_REWARD_WEIGHTS, []))
    is_later = columns.pop(LATER_REWARD, [])
    iteration = log.attributes.get(names.RL_LOOP_ITERATION)
    source = str(log.attributes.get(names.RL_TRAJECTORIES_SOURCE) or "")
    for place in range(max(map(len, columns.values()), default=0)):
        of_functions = _at(place, scores)
        yield Row(
            iteration if isinstance(iteration, int) else None,
            log.process.rank,
            source,
            {
                key: values[place]
                for key, values in columns.items()
                if place < len(values) and values[place] is not None
            },
            of_functions,
            {name: weight for name, weight in weights.items() if name in of_functions},
            _at(place, metrics),
            log.attributes,
            has_later_reward=bool(is_later[place]) if place < len(is_later) else False,
        )


def _named(columns: dict[str, list[Any]], names_of: str, values_of: str) -> dict[str, list[Any]]:
    """Take out the lists of values that have names of their own."""
    pairs = zip(columns.pop(names_of, []), columns.pop(values_of, []), strict=False)
    return {str(name): values for name, values in pairs if isinstance(values, list)}


def _at(place: int, lists: dict[str, list[Any]]) -> dict[str, float]:
    return {
        name: values[place]
        for name, values in lists.items()
        if place < len(values) and isinstance(values[place], (int, float)) and math.isfinite(values[place])
    }


def _weights(functions: list[Any], weights: list[Any]) -> dict[str, float | None]:
    return {
        str(name): weight
        for name, weight in zip(functions, weights, strict=False)
        if weight is None or (isinstance(weight, (int, float)) and math.isfinite(weight) and weight != 1)
    }


def _without_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return value if not isinstance(value, float) or math.isfinite(value) else None
