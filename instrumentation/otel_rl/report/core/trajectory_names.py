"""By which names a change finds its row: trace and id of a rollout, either of them alone, the id of the sample.

Agents that run inside of one step, or of one span of the program, share its trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes
from otel_rl.training.trajectory_shares import TrajectoryName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COLUMNS = (attributes.RL_ROLLOUT_TRACE_ID, attributes.RL_ROLLOUT_ID, attributes.RL_SAMPLE_ID)


def of_change(body: Mapping[str, Any], place: int) -> TrajectoryName | None:
    """Return the name of a change; None where it has none."""
    trace, rollout, sample = _ids(body, place)
    if trace is not None or rollout is not None:
        return TrajectoryName(trace, rollout)
    return None if sample is None else TrajectoryName(None, None, sample)


def of_rows(body: Mapping[str, Any]) -> Iterator[tuple[int, TrajectoryName]]:
    """Yield the place of each row with each of the names by which a change may know it, the best first."""
    for place in range(count(body)):
        trace, rollout, sample = _ids(body, place)
        if trace is not None:
            if rollout is not None:
                yield place, TrajectoryName(trace, rollout)
            yield place, TrajectoryName(trace, None)
        if rollout is not None:
            yield place, TrajectoryName(None, rollout)
        if sample is not None:
            yield place, TrajectoryName(None, None, sample)


def without_trace(name: TrajectoryName) -> TrajectoryName:
    """Return what else finds the row, where none has both the trace and the id."""
    return name if name.rollout is None else TrajectoryName(None, name.rollout)


def count(body: Mapping[str, Any]) -> int:
    """Return how many rows the columns of ids have."""
    return max((len(column) for name in _COLUMNS if isinstance(column := body.get(name), list)), default=0)


def at(column: Any, place: int) -> Any:
    """Return a value of a column; None where it has none."""
    return column[place] if isinstance(column, list) and place < len(column) else None


def _ids(body: Mapping[str, Any], place: int) -> tuple[str | None, ...]:
    values = (at(body.get(name), place) for name in _COLUMNS)
    return tuple(None if value is None else str(value) for value in values)
