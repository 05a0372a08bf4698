"""Every duration and rate over the steps, by what it is of and where it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.over_time import Line, merged
from otel_rl.report.core.steps import BETWEEN, UNCOVERED
from otel_rl.report.subjects.calls.aggregate import Calls
from otel_rl.report.subjects.calls.calls_over_time import MODEL, TOOL
from otel_rl.report.subjects.rewards.aggregate import Rewards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.statistics import BinnedSeries, Cell


class SeriesKind(IntEnum):
    """What a series is of; what explains comes before what it explains."""

    MODEL = 0
    FIRST_CHUNK = 1
    RETRIED = 2
    FAILED = 3
    TOOL = 4
    REWARD = 5
    PAUSE = 6
    PHASE = 7
    WORK = 8
    ROLLOUT = 9
    STEP = 10
    WAIT = 11

    @property
    def is_rate(self) -> bool:
        """True for shares of calls."""
        return self in (SeriesKind.RETRIED, SeriesKind.FAILED)

    @property
    def is_function(self) -> bool:
        """True for what the program calls; phases, steps and rollouts are made of it."""
        return self <= SeriesKind.REWARD

    @property
    def is_of_model(self) -> bool:
        """True for what belongs to the calls of one model at one server."""
        return self <= SeriesKind.FAILED


@dataclass(frozen=True, slots=True)
class StepSeries:
    """One duration in s, or rate, over the steps; ``times[i]`` is how often the value of point ``i`` was spent."""

    kind: SeriesKind
    name: str
    place: str
    rank: int | None
    line: Line
    values: list[float]
    times: list[float]


def all_series(collected: Collected) -> Iterator[StepSeries]:
    """Return every series of the run that can change."""
    yield from _functions(collected)
    yield from _of_calls(collected)
    yield from _of_steps(collected)
    for rank, line in collected[Calls].rollouts.seconds.lines().items():
        yield _per_call(SeriesKind.ROLLOUT, "", "", rank, line)


def _functions(collected: Collected) -> Iterator[StepSeries]:
    for (name, rank), line in collected[Rewards].functions.lines().items():
        yield _per_call(SeriesKind.REWARD, name, "", rank, line)


def _of_calls(collected: Collected) -> Iterator[StepSeries]:
    calls = collected[Calls].over_time
    for kind, series in (
        (SeriesKind.MODEL, calls.seconds),
        (SeriesKind.FIRST_CHUNK, calls.first_chunk),
        (SeriesKind.RETRIED, calls.retried),
        (SeriesKind.FAILED, calls.failed),
    ):
        lines = series.lines()
        models = {called: line for called, line in lines.items() if called.kind == MODEL}
        # A server is the same for all ranks that call it.
        for (name, place), line in merged(models, lambda called: (called.name, called.place)).items():
            yield _per_call(kind, name, place, None, line)
        if kind is SeriesKind.MODEL:
            for called, line in lines.items():
                if called.kind == TOOL:
                    yield _per_call(SeriesKind.TOOL, called.name, "", called.rank, line)


def _per_call(kind: SeriesKind, name: str, place: str, rank: int | None, line: Line) -> StepSeries:
    return StepSeries(kind, name, place, rank, line, line.means, [float(cell.count) for cell in line.cells])


def _of_steps(collected: Collected) -> Iterator[StepSeries]:
    steps = collected.steps
    lines = steps.parts.lines()
    counts = {rank: _counts(line) for (phase, rank), line in lines.items() if phase == UNCOVERED}
    for (phase, rank), line in lines.items():
        if rank in counts:
            yield _per_step(phase, rank, steps.parts, line, counts[rank])
    wholes = [
        (SeriesKind.STEP, "", steps.by_rank),
        (SeriesKind.PAUSE, "", steps.collecting),
        (SeriesKind.PHASE, BETWEEN, steps.between),
    ]
    if len(counts) > 1:
        # Of one rank the work is the step.
        wholes += [(SeriesKind.WORK, "", steps.own), (SeriesKind.WAIT, "", steps.waiting)]
    for kind, name, binned in wholes:
        for rank, line in binned.lines().items():
            yield _per_call(kind, name, "", rank, _line(line, binned.width))


def _counts(line: list[tuple[int, Cell]]) -> dict[int, int]:
    return {first: cell.count for first, cell in line}


def _per_step(
    phase: str, rank: int | None, binned: BinnedSeries, cells: list[tuple[int, Cell]], counts: dict[int, int]
) -> StepSeries:
    """Return the time of a phase per step, in which it may come several times."""
    line = _line([(first, cell) for first, cell in cells if first in counts], binned.width)
    times = [float(counts[first]) for first in line.x]
    values = [cell.total / number for cell, number in zip(line.cells, times, strict=True)]
    return StepSeries(SeriesKind.PHASE, phase, "", rank, line, values, times)


def _line(cells: list[tuple[int, Cell]], width: int) -> Line:
    return Line([first for first, _ in cells], [cell for _, cell in cells], width, by_step=True)


def seconds_between(line: Line | None, first: int, last: int) -> float:
    """Return the sum of the values of a line from bin ``first`` to bin ``last``."""
    if line is None:
        return 0.0
    return sum(cell.total for x, cell in zip(line.x, line.cells, strict=True) if first <= x <= last)


def step_lines(collected: Collected) -> dict[Any, Line]:
    """Return the length of the steps of each rank."""
    return _by_rank(collected.steps.by_rank)


def gap_lines(collected: Collected) -> dict[Any, Line]:
    """Return the time between the steps of each rank."""
    return _by_rank(collected.steps.gaps)


def _by_rank(binned: BinnedSeries) -> dict[Any, Line]:
    return {rank: _line(line, binned.width) for rank, line in binned.lines().items()}
