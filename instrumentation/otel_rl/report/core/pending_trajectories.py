"""Copies of rows of open steps: they count where the process was killed before the step's own record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.store.reader import Log

_GROUP = (names.RL_LOOP_NAME, names.RL_TRAJECTORIES_SOURCE, names.RL_TRAJECTORIES_STEP, names.RL_LOOP_ITERATION)


class PendingTrajectories:
    """Holds copies back until their step's record comes, or the end of the data."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[Any, ...], list[Log]] = {}

    def add_log(self, log: Log) -> bool:
        """Take in a record; return whether it counts by itself."""
        if log.event not in (events.RL_TRAJECTORIES.name, events.RL_TRAJECTORIES_PENDING.name):
            return True
        group = (log.process.key, *(str(log.attributes.get(name)) for name in _GROUP))
        if log.event == events.RL_TRAJECTORIES.name:
            self._waiting.pop(group, None)
            return True
        self._waiting.setdefault(group, []).append(log)
        return False

    def close(self) -> Iterator[Log]:
        """Yield those whose step has no record, as records of trajectories."""
        for copies in self._waiting.values():
            yield from (replace(copy, event=events.RL_TRAJECTORIES.name) for copy in copies)
