"""Means of the rewards of a loop of the program's own, made of the rows of its rollouts: a log call per step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_rl.health.reward_columns import RewardSteps
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.store.reader import Log

#: Most loops of processes; of more the rest is left out.
_LOOPS = 1000


class _RewardLoop:
    """A loop of a process."""

    def __init__(self, first: Log, step: int) -> None:
        self.steps = RewardSteps()
        #: A record of the open step, and its number.
        self.record, self.step = first, step


class RewardCurves:
    """Makes log calls of records of trajectories; what the program logs itself under the same key wins."""

    def __init__(self) -> None:
        self._loops: dict[tuple[str, str], _RewardLoop] = {}
        self._logged: dict[tuple[str, str], set[str]] = {}

    def add_log(self, log: Log) -> Iterator[Log]:
        """Take in a record; yield the log call of a step that it shows to be over."""
        place = log.process.key, str(log.attributes.get(names.RL_LOOP_NAME) or "")
        if not isinstance(log.body, dict):
            return
        if log.event == events.RL_STEP.name:
            self._logged.setdefault(place, set()).update(map(str, log.body))
            return
        step = int_or_none(log.attributes.get(names.RL_TRAJECTORIES_STEP))
        if log.event != events.RL_TRAJECTORIES.name or step is None:
            return
        loop = self._loops.get(place)
        if loop is None:
            if len(self._loops) >= _LOOPS:
                return
            loop = self._loops[place] = _RewardLoop(log, step)
        elif step != loop.step:
            yield from self._end(place, loop)
        loop.record, loop.step = log, step
        loop.steps.add(log.body, int_or_none(log.attributes.get(names.RL_LOOP_ITERATION)), step)

    def close(self) -> Iterator[Log]:
        """Yield the log calls of the steps that came last."""
        for place, loop in self._loops.items():
            yield from self._end(place, loop)

    def _end(self, place: tuple[str, str], loop: _RewardLoop) -> Iterator[Log]:
        logged = self._logged.get(place, ())
        values = {key: value for key, value in loop.steps.end(loop.step).items() if key not in logged}
        if values:
            attributes: dict[str, Any] = {names.RL_LOOP_ITERATION: loop.step, names.RL_LOOP_NAME: place[1]}
            yield replace(loop.record, event=events.RL_STEP.name, body=values, attributes=attributes)
