"""Rows of trajectories as bodies of records: the columns of all of them, in as many records as these may need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes
from otel_rl.telemetry.attribute_values import PlainBody
from otel_rl.telemetry.open_trajectory import MAXIMUM_REWARDS
from otel_rl.training import trajectory_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from otel_rl.training.trajectory_columns import Columns


def make(made: Sequence[Columns], counts: Sequence[int]) -> tuple[Mapping[str, Sequence[Any]], Iterator[PlainBody]]:
    """Return the columns of several parts with so many rows each, and the bodies of their records."""
    columns = trajectory_columns.joined([part.values for part in made], counts, trajectory_columns.plain)
    finite = trajectory_columns.finite
    scores = trajectory_columns.joined([part.scores for part in made], counts, finite, MAXIMUM_REWARDS)
    metrics = trajectory_columns.joined([part.metrics for part in made], counts, finite, MAXIMUM_REWARDS)
    return columns, _bodies(columns, scores, metrics, _names_and_weights(scores, metrics, made), sum(counts))


def _bodies(
    columns: Mapping[str, Sequence[Any]],
    scores: Mapping[str, Sequence[Any]],
    metrics: Mapping[str, Sequence[Any]],
    names: Mapping[str, Any],
    count: int,
) -> Iterator[PlainBody]:
    of_functions = [*scores.values(), *metrics.values()]
    for begin, end, characters in trajectory_columns.parts(columns, of_functions, names, count):
        body = PlainBody({key: values[begin:end] for key, values in columns.items()}, **names)
        body.characters = characters
        if scores:
            body[attributes.RL_REWARD_SCORES] = [values[begin:end] for values in scores.values()]
        if metrics:
            body[attributes.RL_ROLLOUT_METRIC_VALUES] = [values[begin:end] for values in metrics.values()]
        yield body


def _names_and_weights(scores: Collection[str], metrics: Collection[str], made: Sequence[Columns]) -> dict[str, Any]:
    """Return the names of the columns of scores and metrics, and the weights where one is not 1."""
    names: dict[str, Any] = {}
    if scores:
        names[attributes.RL_REWARD_NAMES] = trajectory_columns.named(scores)
        weights = [trajectory_columns.weight_of(name, made) for name in scores]
        if any(weight != 1 for weight in weights):
            names[attributes.RL_REWARD_WEIGHTS] = weights
    if metrics:
        names[attributes.RL_ROLLOUT_METRIC_NAMES] = trajectory_columns.named(metrics)
    return names
