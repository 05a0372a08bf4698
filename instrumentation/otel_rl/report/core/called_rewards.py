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

#: Most cells that are kept; the samples of steps that come when there are more are left out, all of them.
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

    def add(self, log: Log, pid: int, iteration: int | None, ended_in: int) -> None:
        """Take in a record of a worker whose calls the process ``pid`` had submitted."""
        caller = Caller.of(log.process, pid, str(log.attributes.get(names.RL_LOOP_NAME) or ""))
        # Each worker knows it from the caller: a pool made later begins with the numbers of then.
        stretch = int_or_none(log.attributes.get(names.RL_TRAJECTORIES_RESTARTS)) or 0
        steps, place = self._steps.setdefault(caller, {}), StepOfCaller(stretch, step_of(iteration, ended_in))
        if place not in steps:
            if self._cells >= MOST_CELLS:
                return
            steps[place] = _Called(log)
        sums = steps[place].sums
        before = sums.size
        sums.add(log.body)
        self._cells += 1 + sums.size - before

    def take(self, caller: Caller, place: StepOfCaller) -> SampleSums | None:
        """Take out the samples of a step; None where there are none."""
        called = self._steps.get(caller, {}).pop(place, None)
        return None if called is None else called.sums

    def left(self) -> Iterator[tuple[Caller, int, Log, SampleSums]]:
        """Yield the samples that nobody has taken, the steps of a caller in their order, each with its first record."""
        for caller, steps in self._steps.items():
            for place in sorted(steps):
                yield caller, place.step, steps[place].log, steps[place].sums
        self._steps.clear()
