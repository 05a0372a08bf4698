"""Samples of rollouts that began in the workers of pools, by the process and step that their calls came from.

The files of workers are read one after the other, before or after those of their caller: all is kept until the end, or
until the caller's own samples of the step are told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.health.reward_columns import SampleSums, step_of
from otel_rl.semconv import attributes as names
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.store.reader import Log, Process

#: Most cells that are kept: then the oldest steps lose their groups, and where that is not enough go themselves.
MOST_CELLS = 200_000


class Caller(NamedTuple):
    """A process, as its workers name it, and one of its loops."""

    attempt: tuple[int, ...]
    host: str
    pid: int
    loop: str

    @classmethod
    def of(cls, process: Process, pid: int | None, loop: str) -> Caller:
        """Return the caller ``pid`` of a worker, or ``process`` itself."""
        own = pid if pid is not None else int_or_none(process.identity(names.PROCESS_PID))
        return cls(process.attempt, str(process.identity(names.HOST_NAME) or ""), own or 0, loop)


class StepOfCaller(NamedTuple):
    """A step of a caller; ``stretch`` says how often the numbers of its loop had begun again."""

    stretch: int
    step: int


@dataclass(slots=True)
class _Called:
    """The samples of a step, and the first record that had any."""

    log: Log
    sums: SampleSums = field(default_factory=SampleSums)


@dataclass(slots=True)
class CalledRewards:
    """Keeps the samples; :meth:`take` those of one step, :meth:`left` all others."""

    _steps: dict[Caller, dict[StepOfCaller, _Called]] = field(default_factory=dict)
    _cells: int = 0
    #: The newest step of each caller that has gone: what comes later of it, or of those before, would tell of a part.
    _gone: dict[Caller, StepOfCaller] = field(default_factory=dict)

    def add(self, log: Log, pid: int, iteration: int | None, ended_in: int) -> None:
        """Take in a record of a worker whose calls the process ``pid`` had submitted."""
        caller = Caller.of(log.process, pid, str(log.attributes.get(names.RL_LOOP_NAME) or ""))
        # Each worker knows it from the caller: a pool made later begins with the numbers of then.
        stretch = int_or_none(log.attributes.get(names.RL_TRAJECTORIES_RESTARTS)) or 0
        steps, place = self._steps.setdefault(caller, {}), StepOfCaller(stretch, step_of(iteration, ended_in))
        if caller in self._gone and place <= self._gone[caller]:
            return
        if place not in steps:
            steps[place] = _Called(log)
            self._cells += 1
        sums = steps[place].sums
        before = sums.size
        sums.add(log.body)
        self._cells += sums.size - before
        if self._cells > MOST_CELLS:
            self._make_room()

    def _make_room(self) -> None:
        """Forget the groups of the oldest steps; where that is not enough, the oldest steps."""
        oldest = [(caller, place) for caller, steps in self._steps.items() for place in sorted(steps)]
        for forget in (self._forget_groups, self._forget_step):
            if self._cells <= MOST_CELLS:
                return
            for caller, place in oldest:
                forget(caller, place)
                if self._cells <= MOST_CELLS * 3 // 4:
                    return

    def _forget_groups(self, caller: Caller, place: StepOfCaller) -> None:
        sums = self._steps[caller][place].sums
        before = sums.size
        sums.leave_groups()
        self._cells += sums.size - before

    def _forget_step(self, caller: Caller, place: StepOfCaller) -> None:
        self.take(caller, place)
        self._gone[caller] = place

    def take(self, caller: Caller, place: StepOfCaller) -> SampleSums | None:
        """Take out the samples of a step; None where there are none."""
        called = self._steps.get(caller, {}).pop(place, None)
        if called is None:
            return None
        self._cells -= 1 + called.sums.size
        return called.sums

    def left(self) -> Iterator[tuple[Caller, int, Log, SampleSums]]:
        """Yield the samples that nobody has taken, the steps of a caller in their order, each with its first record."""
        for caller, steps in self._steps.items():
            for place in sorted(steps):
                yield caller, place.step, steps[place].log, steps[place].sums
        self._steps.clear()
        self._cells = 0
