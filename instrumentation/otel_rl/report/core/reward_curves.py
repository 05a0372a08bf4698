"""Means of the rewards of a loop of the program's own, made of the rows of its rollouts: a log call per step."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.health.reward_columns import RewardSteps
from otel_rl.report.core.called_rewards import CalledRewards, Caller, StepOfCaller
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.health.reward_columns import SampleSums
    from otel_rl.store.reader import Log, Process

#: Of a process without a rank: those with one come first.
_NO_RANK = 1 << 31
#: Log calls that wait for the program's own: its rows are written in batches, ahead of the values of the same steps.
_WAITING = 1000


class _Step(NamedTuple):
    """A step that is over, and waits until it is a log call; ``latest`` is its last record."""

    place: tuple[str, str]
    of_caller: StepOfCaller
    latest: Log
    sums: SampleSums


class RewardCurves:
    """Makes log calls of records of trajectories; what the program logs itself under the same key wins.

    Of each attempt and loop the process with the lowest rank counts, as in the health rules. Samples of its pools'
    workers are its own.
    """

    def __init__(self) -> None:
        #: Attempt and loop -> the lowest rank that has reported.
        self._lowest: dict[tuple[tuple[int, ...], str], int] = {}
        #: Process and loop -> samples of its steps, and the latest record.
        self._loops: dict[tuple[str, str], tuple[RewardSteps, Log]] = {}
        #: How often the steps of these have begun again.
        self._stretches: dict[tuple[str, str], int] = {}
        self._logged: dict[tuple[str, str], set[str]] = {}
        #: Steps whose keys the program may still log itself.
        self._waiting: deque[_Step] = deque()
        self._called = CalledRewards()
        #: The processes that have told anything, their keys, and they by what their workers know of them.
        self._seen: set[str] = set()
        self._processes: dict[Caller, Process] = {}

    def add_log(self, log: Log) -> Iterator[Log]:
        """Take in a record; yield the log calls of the steps that it shows to be over."""
        if log.process.key not in self._seen:
            self._seen.add(log.process.key)
            self._processes[Caller.of(log.process, None, "")] = log.process
        place = log.process.key, str(log.attributes.get(names.RL_LOOP_NAME) or "")
        if not isinstance(log.body, dict):
            return
        if log.event == events.RL_STEP.name:
            self._logged.setdefault(place, set()).update(map(str, log.body))
            return
        step = int_or_none(log.attributes.get(names.RL_TRAJECTORIES_STEP))
        if log.event != events.RL_TRAJECTORIES.name or step is None:
            return
        iteration = int_or_none(log.attributes.get(names.RL_LOOP_ITERATION))
        caller = int_or_none(log.attributes.get(names.RL_TRAJECTORIES_CALLER_PID))
        if caller is not None:
            self._called.add(log, caller, iteration, step)
        elif self._counts(log.process, place[1]):
            self._add_own(place, log, iteration, step)
            yield from self._made(_WAITING)

    def close(self) -> Iterator[Log]:
        """Yield the log calls of the steps that came last."""
        for place in self._loops:
            self._end(place, None)
        yield from self._made(0)
        yield from self._of_workers()

    def _counts(self, process: Process, loop: str) -> bool:
        """Return whether no process with a lower rank has reported the loop."""
        rank = _NO_RANK if process.rank is None else process.rank
        if rank > self._lowest.setdefault((process.attempt, loop), rank):
            return False
        self._lowest[process.attempt, loop] = rank
        return True

    def _add_own(self, place: tuple[str, str], log: Log, iteration: int | None, step: int) -> None:
        steps, latest = self._loops.get(place) or (RewardSteps(), log)
        before = latest.attributes[names.RL_TRAJECTORIES_STEP]
        stretch = int_or_none(log.attributes.get(names.RL_TRAJECTORIES_RESTARTS)) or 0
        begins_again = step < before or stretch != self._stretches.get(place, stretch)
        if step != before or begins_again:
            # None of the steps before goes on where they begin again.
            self._end(place, None if begins_again else step)
        self._stretches[place] = stretch
        self._loops[place] = steps, log
        steps.add(log.body, iteration, step)

    def _end(self, place: tuple[str, str], before: int | None) -> None:
        """End the steps below ``before``, or all: rollouts may name a step in which none ends."""
        steps, latest = self._loops[place]
        stretch = self._stretches.get(place, 0)
        for step, sums in steps.end_before(before):
            self._waiting.append(_Step(place, StepOfCaller(stretch, step), latest, sums))

    def _made(self, waiting: int) -> Iterator[Log]:
        """Yield log calls, the earliest first, until so many wait."""
        while len(self._waiting) > waiting:
            place, of_caller, latest, sums = self._waiting.popleft()
            called = self._called.take(Caller.of(latest.process, None, place[1]), of_caller)
            if called is not None:
                sums.include(called)
            yield from self._call(place, of_caller.step, latest, self._loops[place][0].means(sums))

    def _of_workers(self) -> Iterator[Log]:
        """Yield the log calls of steps whose samples all come from workers."""
        steps = sorted(self._called.left(), key=lambda left: self._rank(left[0]))
        for caller, step, log, sums in steps:
            # A caller without records of its own is known by its worker only.
            process = self._processes.get(caller._replace(loop=""), log.process)
            if self._counts(process, caller.loop):
                place = process.key, caller.loop
                loop, _ = self._loops.setdefault(place, (RewardSteps(), log))
                yield from self._call(place, step, replace(log, process=process), loop.means(sums))

    def _rank(self, caller: Caller) -> int:
        process = self._processes.get(caller._replace(loop=""))
        return _NO_RANK if process is None or process.rank is None else process.rank

    def _call(self, place: tuple[str, str], step: int, log: Log, means: dict[str, float]) -> Iterator[Log]:
        """Yield the log call of a step, without what the program logs itself."""
        logged = self._logged.get(place, ())
        values = {key: value for key, value in means.items() if key not in logged}
        if values:
            attributes: dict[str, Any] = {names.RL_LOOP_ITERATION: step, names.RL_LOOP_NAME: place[1]}
            yield replace(log, event=events.RL_STEP.name, body=values, attributes=attributes)
