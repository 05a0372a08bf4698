"""The rows of trajectories: their columns by attribute, and what a reader gets back of one."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping

_TEXT, _NUMBER, _TRUTH = "TEXT", "REAL", "INTEGER"
#: Attribute -> name of its column and kind of its values; what else a row has is in the column ``more``.
COLUMNS = {
    names.RL_ROLLOUT_ID: ("id", _TEXT),
    names.RL_SAMPLE_ID: ("sample_id", _TEXT),
    names.RL_GROUP_ID: ("group_id", _TEXT),
    names.RL_ENVIRONMENT_NAME: ("environment", _TEXT),
    names.RL_ROLLOUT_TRACE_ID: ("trace", _TEXT),
    names.RL_ROLLOUT_STATUS: ("status", _TEXT),
    names.RL_ROLLOUT_DISCARD_REASON: ("discard_reason", _TEXT),
    names.RL_ROLLOUT_STOP_REASON: ("stop_reason", _TEXT),
    names.RL_ROLLOUT_REWARD: ("reward", _NUMBER),
    names.RL_ROLLOUT_ADVANTAGE: ("advantage", _NUMBER),
    names.RL_ROLLOUT_SECONDS: ("seconds", _NUMBER),
    names.RL_ROLLOUT_AGE: ("age", _NUMBER),
    names.RL_ROLLOUT_TRAINED: ("trained", _TRUTH),
    names.RL_ROLLOUT_SUCCESS: ("success", _TRUTH),
    names.RL_ROLLOUT_EVALUATION: ("evaluation", _TRUTH),
    names.RL_ROLLOUT_SUSPECT: ("suspect", _TRUTH),
    names.RL_ROLLOUT_TURNS: ("turns", ""),
    names.RL_ROLLOUT_MODEL_CALLS: ("model_calls", ""),
    names.RL_ROLLOUT_MODEL_ERRORS: ("model_errors", ""),
    names.RL_ROLLOUT_TOOL_CALLS: ("tool_calls", ""),
    names.RL_ROLLOUT_TOOL_ERRORS: ("tool_errors", ""),
    names.RL_ROLLOUT_REPEATED_CALLS: ("repeated_calls", ""),
    names.RL_ROLLOUT_REPEATED_TOOL: ("repeated_tool", _TEXT),
    names.RL_ROLLOUT_SPAN_ERRORS: ("span_errors", ""),
    names.RL_ROLLOUT_INPUT_TOKENS: ("input_tokens", ""),
    names.RL_ROLLOUT_OUTPUT_TOKENS: ("output_tokens", ""),
    names.RL_ROLLOUT_JUDGE_CALLS: ("judge_calls", ""),
    names.RL_ROLLOUT_JUDGE_ERRORS: ("judge_errors", ""),
    names.RL_ROLLOUT_JUDGE_INPUT_TOKENS: ("judge_input_tokens", ""),
    names.RL_ROLLOUT_JUDGE_OUTPUT_TOKENS: ("judge_output_tokens", ""),
    names.RL_ROLLOUT_TOOL_MODEL_CALLS: ("tool_model_calls", ""),
    names.RL_ROLLOUT_TOOL_MODEL_ERRORS: ("tool_model_errors", ""),
    names.RL_ROLLOUT_TOOL_MODEL_INPUT_TOKENS: ("tool_model_input_tokens", ""),
    names.RL_ROLLOUT_TOOL_MODEL_OUTPUT_TOKENS: ("tool_model_output_tokens", ""),
    names.RL_ROLLOUT_ENGINES: ("engines", _TEXT),
}
#: Kinds of what has a name of the program's own, and the attributes with names, values and weights.
SCORE, METRIC = "score", "metric"
_NAMED = (
    (SCORE, names.RL_REWARD_NAMES, names.RL_REWARD_SCORES),
    (METRIC, names.RL_ROLLOUT_METRIC_NAMES, names.RL_ROLLOUT_METRIC_VALUES),
)
_OF_RECORD = {names.RL_REWARD_WEIGHTS, *(name for _, *of in _NAMED for name in of)}


@dataclass(slots=True)
class RecordedSample:
    """What a record says of one trajectory: columns by attribute, and values by kind and name.

    ``weights`` of reward functions are None where samples of a record have several; those of 1 are left out.
    ``estimator`` is the formula of the advantage.
    """

    columns: dict[str, Any]
    named: dict[str, dict[str, float]] = field(default_factory=lambda: {SCORE: {}, METRIC: {}})
    weights: dict[str, float | None] = field(default_factory=dict)
    estimator: str | None = None
    #: A reward came after its advantage was told, which is of the rewards before.
    has_later_reward: bool = False

    def get(self, name: str) -> Any:
        """Return the value of a column, or None."""
        return self.columns.get(name)

    def number(self, name: str) -> float | None:
        """Return the value of a column of numbers, or None."""
        value = self.columns.get(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


@dataclass(slots=True)
class Row(RecordedSample):
    """A sample as the tables have it; ``sample`` is its number there."""

    sample: int = 0
    iteration: int | None = None
    rank: int | None = None
    source: str = ""

    @property
    def scores(self) -> dict[str, float]:
        """Scores by reward function."""
        return self.named[SCORE]

    @property
    def metrics(self) -> dict[str, float]:
        """Values that the program has named."""
        return self.named[METRIC]

    @property
    def is_failed(self) -> bool:
        """An error ended it, or its program gave it up, or something in it failed and its reward is the lowest."""
        return self.get(names.RL_ROLLOUT_STATUS) in (Status.FAILED, Status.CANCELLED) or bool(
            self.get(names.RL_ROLLOUT_SUSPECT)
        )

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        extra = {"weights": self.weights, "metrics": self.metrics}
        return {
            "step": self.iteration,
            "rank": self.rank,
            "source": self.source,
            **self.columns,
            "scores": self.scores,
            **{key: value for key, value in extra.items() if value},
        }


def told(body: Mapping[str, Any]) -> Iterator[RecordedSample]:
    """Yield the rows of a record; a column that is no list, or too short, holds nothing."""
    columns = {str(key): values for key, values in body.items() if isinstance(values, list)}
    functions, weights_of = (columns.get(name, []) for name in (names.RL_REWARD_NAMES, names.RL_REWARD_WEIGHTS))
    weights = {str(name): weight for name, weight in zip(functions, weights_of, strict=False) if _is_weight(weight)}
    named = [(kind, dict(_named(columns, *of))) for kind, *of in _NAMED]
    own = {key: _clean(key, values) for key, values in columns.items() if key not in _OF_RECORD}
    for place in range(max(map(len, own.values()), default=0)):
        row = RecordedSample(_at(own, place), {kind: _at(lists, place) for kind, lists in named})
        row.weights = {name: weights[name] for name in row.named[SCORE] if name in weights}
        yield row


def _named(columns: Mapping[str, list[Any]], names_of: str, values_of: str) -> Iterator[tuple[str, list[Any]]]:
    for name, values in zip(columns.get(names_of, ()), columns.get(values_of, ()), strict=False):
        if isinstance(values, list):
            yield str(name), [value if _is_number(value) else None for value in values]


def _at(columns: Mapping[str, list[Any]], place: int) -> dict[str, Any]:
    return {key: values[place] for key, values in columns.items() if place < len(values) and values[place] is not None}


def _clean(key: str, values: list[Any]) -> list[Any]:
    """Return a column without values of another kind than its own; texts may have come as numbers."""
    kind = COLUMNS.get(key, ("", None))[1]
    if kind == _TEXT:
        return [str(value) if isinstance(value, (str, int, float)) else None for value in values]
    if kind is None:
        return values
    fits = _is_truth if kind == _TRUTH else _is_number
    return [value if fits(value) else None for value in values]


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _is_weight(weight: Any) -> bool:
    return weight is None or (_is_number(weight) and weight != 1)


#: Columns of :func:`cells`.
CELLS = ("estimator", "scored_by", "has_later_reward", *(name for name, _ in COLUMNS.values()), "more")


def cells(row: RecordedSample) -> tuple[Any, ...]:
    """Return the values of the columns :data:`CELLS`."""
    rest = {key: _without_nan(value) for key, value in row.columns.items() if key not in COLUMNS}
    of_record = row.estimator, json.dumps(sorted(row.named[SCORE])), int(row.has_later_reward)
    return *of_record, *map(row.columns.get, COLUMNS), json.dumps(rest) if rest else None


def _without_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return value if not isinstance(value, float) or math.isfinite(value) else None


def scores(row: RecordedSample, sample: int, process: int, step: int | None, time: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of ``score`` of a sample."""
    for kind, values in row.named.items():
        for name, value in values.items():
            has_weight = kind == SCORE and name in row.weights
            weight = row.weights[name] if has_weight else None
            yield sample, process, kind, name, value, weight, int(has_weight), step, time


def of_cells(record: sqlite3.Row) -> Row:
    """Return a sample without its scores, from a row of ``sample`` with the rank of its process."""
    columns = {
        attribute: bool(value) if kind == _TRUTH else value
        for attribute, (name, kind) in COLUMNS.items()
        if (value := record[name]) is not None
    }
    columns |= {key: value for key, value in json.loads(record["more"] or "{}").items() if value is not None}
    return Row(
        columns,
        estimator=record["estimator"],
        has_later_reward=bool(record["has_later_reward"]),
        sample=record["sample"],
        iteration=record["step"],
        rank=record["rank"],
        source=record["source"],
    )


def with_scores(rows: Iterable[Row], values: Iterable[sqlite3.Row]) -> list[Row]:
    """Fill in the scores of some samples, from rows of ``score`` in the order in which they were told."""
    by_number = {row.sample: row for row in rows}
    for value in values:
        row = by_number[value["sample"]]
        row.named[value["kind"]][value["name"]] = value["value"]
        if value["has_weight"]:
            row.weights[value["name"]] = value["weight"]
    return list(by_number.values())
