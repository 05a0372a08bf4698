"""Means of the rewards of a loop of the program's own, made of the rows of its rollouts: a log call per step."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_rl.health.reward_columns import RewardSteps
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.store.reader import Log

#: Of a process without a rank: those with one come first.
_NO_RANK = 1 << 31
#: Log calls that wait for the program's own: its rows are written in batches, ahead of the values of the same steps.
_WAITING = 1000


class RewardCurves:
    """Makes log calls of records of trajectories; what the program logs itself under the same key wins.

    Of each attempt and loop the process with the lowest rank counts, as in the health rules.
    """

    def __init__(self) -> None:
        #: Attempt and loop -> the lowest rank that has reported.
        self._lowest: dict[tuple[tuple[int, ...], str], int] = {}
        #: Process and loop -> samples of its steps, and the latest record.
        self._loops: dict[tuple[str, str], tuple[RewardSteps, Log]] = {}
        self._logged: dict[tuple[str, str], set[str]] = {}
        #: Log calls whose keys the program may still log itself, with their process and loop.
        self._waiting: deque[tuple[tuple[str, str], Log]] = deque()

    def add_log(self, log: Log) -> Iterator[Log]:
        """Take in a record; yield the log calls of the steps that it shows to be over."""
        place = log.process.key, str(log.attributes.get(names.RL_LOOP_NAME) or "")
        if not isinstance(log.body, dict):
            return
        if log.event == events.RL_STEP.name:
            self._logged.setdefault(place, set()).update(map(str, log.body))
            return
        step = int_or_none(log.attributes.get(names.RL_TRAJECTORIES_STEP))
        if log.event != events.RL_TRAJECTORIES.name or step is None:
            return
        rank = _NO_RANK if log.process.rank is None else log.process.rank
        lowest = self._lowest.setdefault((log.process.attempt, place[1]), rank)
        if rank > lowest:
            return
        self._lowest[log.process.attempt, place[1]] = rank
        steps, latest = self._loops.get(place) or (RewardSteps(), log)
        before = latest.attributes[names.RL_TRAJECTORIES_STEP]
        if step != before:
            # A lower number begins the steps again: none of those before goes on.
            self._end(place, step if step > before else None)
        self._loops[place] = steps, log
        steps.add(log.body, int_or_none(log.attributes.get(names.RL_LOOP_ITERATION)), step)
        yield from self._made(_WAITING)

    def close(self) -> Iterator[Log]:
        """Yield the log calls of the steps that came last."""
        for place in self._loops:
            self._end(place, None)
        yield from self._made(0)

    def _end(self, place: tuple[str, str], before: int | None) -> None:
        """End the steps below ``before``, or all: rollouts may name a step in which none ends."""
        steps, latest = self._loops[place]
        for step, means in steps.end_before(before):
            attributes: dict[str, Any] = {names.RL_LOOP_ITERATION: step, names.RL_LOOP_NAME: place[1]}
            call = replace(latest, event=events.RL_STEP.name, body=means, attributes=attributes)
            self._waiting.append((place, call))

    def _made(self, waiting: int) -> Iterator[Log]:
        """Yield log calls, the earliest first, until so many wait; without what the program logs itself."""
        while len(self._waiting) > waiting:
            place, call = self._waiting.popleft()
            logged = self._logged.get(place, ())
            values = {key: value for key, value in call.body.items() if key not in logged}
            if values:
                yield replace(call, body=values)
