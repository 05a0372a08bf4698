"""Counters of trajectories, by what became of them: sums of the rows of the records ``rl.trajectories``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes, metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.context import Context

    from otel_rl.telemetry.scope import Scope


def count_started(scope: Scope, source: str, started: int) -> None:
    """Trajectories have begun."""
    if started:
        scope.record(metrics.RL_TRAJECTORY_STARTED, started, {attributes.RL_TRAJECTORIES_SOURCE: source})


def count_ended(scope: Scope, source: str, columns: Mapping[str, Sequence[Any]], count: int, context: Context) -> None:
    """``count`` trajectories have ended, of which ``columns`` have a value each."""
    of_source = {attributes.RL_TRAJECTORIES_SOURCE: source}
    nothing = (None,) * count
    statuses, reasons = (
        [value if isinstance(value, str) else None for value in columns.get(key, nothing)]
        for key in (attributes.RL_ROLLOUT_STATUS, attributes.RL_ROLLOUT_DISCARD_REASON)
    )
    for (status, reason), number in Counter(zip(statuses, reasons, strict=True)).items():
        outcome = {attributes.RL_ROLLOUT_STATUS: status, attributes.RL_ROLLOUT_DISCARD_REASON: reason}
        scope.record(metrics.RL_TRAJECTORY_ENDED, number, of_source | outcome)
    for metric, key in (
        (metrics.RL_TRAJECTORY_TRAINED, attributes.RL_ROLLOUT_TRAINED),
        (metrics.RL_TRAJECTORY_SUSPECT, attributes.RL_ROLLOUT_SUSPECT),
    ):
        number = sum(value is True for value in columns.get(key, ()))
        if number:
            scope.record(metric, number, of_source)
    turns = [value for value in columns.get(attributes.RL_ROLLOUT_TURNS, ()) if type(value) is int]
    if turns:
        scope.record_all(metrics.RL_TRAJECTORY_TURNS, turns, of_source, context)
