"""Every duration and rate over the steps, by what it is of and where it is; and a level of one that rose."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.lines import Line, merged
from otel_rl.report.core.steps import BETWEEN, UNCOVERED
from otel_rl.report.subjects.calls import lines as call_lines
from otel_rl.report.subjects.calls import rollouts
from otel_rl.semconv.attributes import RlPhaseValues as Phase
from otel_rl.store.tables.load import MODEL, TOOL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.calls.lines import Called


#: What may lie between steps, which is a part of the time that a step takes.
BETWEEN_STEPS = (BETWEEN, Phase.DATA_WAIT)


class SeriesKind(IntEnum):
    """What a series is of; what explains comes before what it explains."""

    MODEL = 0
    FIRST_CHUNK = 1
    RETRIED = 2
    FAILED = 3
    TOOL = 4
    REWARD = 5
    PAUSE = 6
    FIRST_CALL = 7
    PHASE = 8
    WORK = 9
    ROLLOUT = 10
    STEP = 11
    WAIT = 12

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
    """One duration in s, or rate, over the steps.

    ``times[i]`` is how often the value of point ``i`` was spent, one after another: calls at once spend it once.
    """

    kind: SeriesKind
    name: str
    place: str
    rank: int | None
    line: Line
    values: list[float]
    times: list[float]

    @property
    def seconds(self) -> float:
        """Time that was spent, with what ran at once counted once."""
        return sum(value * times for value, times in zip(self.values, self.times, strict=True))


@dataclass(slots=True)
class LevelChange:
    """A level that rose, in one place or alike on several ranks; times in s.

    Attributes:
        ranks: where it rose; ``[None]`` for processes without a rank.
        unchanged: ranks on which the same thing went on and did not rise.
        onset: first step, or second since the epoch where ``by_step`` is False.
        last: last step of it.
        lasts: True where it goes on to the end of the run.
        extra: seconds lost to it, per rank.
        share: of the steps' or the rollouts' time in which it was; 0 where it is ``hidden``.
        in_rollouts: whose time ``share`` is of.
        at_once: True where its calls ran at once, two or more on average.
        hidden: True where it would be notable, and the steps did not become longer: it ran beside something else, or
            that became shorter.
        all_lose: True where the steps of ranks on which nothing changed became longer with it.
        found_in: steps that had the phase while it lasted, and all of these.
        reason: why it is no fault of the program: more to do, or a busy machine.
        grows: True where it rises bit by bit, and ``after`` is its level at the end.
    """

    kind: SeriesKind
    name: str
    place: str
    ranks: list[int | None]
    unchanged: list[int]
    onset: int
    last: int
    lasts: bool
    by_step: bool
    before: float
    after: float
    extra: float = 0.0
    share: float = 0.0
    in_rollouts: bool = False
    at_once: bool = False
    hidden: bool = False
    all_lose: bool = False
    found_in: tuple[int, int] | None = None
    reason: str = ""
    grows: bool = False
    #: Of the first rank.
    series: StepSeries | None = None
    #: Of the same model and server: rates and the time to the first chunk.
    with_it: list[LevelChange] = field(default_factory=list)
    symptoms: list[LevelChange] = field(default_factory=list)


@asked_once
def all_series(collected: Collected) -> list[StepSeries]:
    """Return every duration and rate of the run."""
    of_rollouts = [
        _per_call(SeriesKind.ROLLOUT, "", "", rank, line)
        for rank, line in rollouts.over_steps(collected, "seconds").items()
    ]
    of_rollouts += [
        _per_call(SeriesKind.FIRST_CALL, "", "", rank, line)
        for rank, line in rollouts.until_first_call(collected).items()
    ]
    return [*_functions(collected), *_of_calls(collected), *_of_steps(collected), *of_rollouts]


def _functions(collected: Collected) -> Iterator[StepSeries]:
    occupied = call_lines.of_rewards(collected, "occupied")
    for (name, rank), line in call_lines.of_rewards(collected, "seconds").items():
        yield _spent_once(_per_call(SeriesKind.REWARD, name, "", rank, line), occupied.get((name, rank)))


def in_rollouts(collected: Collected) -> frozenset[tuple[str, str, str]]:
    """Return kind, name and place of what is mostly called inside of rollouts; none where their time is not known."""
    has_rollouts = rollouts.of_run(collected).statistics.number
    return call_lines.mostly_in_rollouts(collected) if has_rollouts else frozenset()


def _of_calls(collected: Collected) -> Iterator[StepSeries]:
    inside = in_rollouts(collected)
    for kind, value, occupied in (
        (SeriesKind.MODEL, "seconds", "occupied"),
        (SeriesKind.FIRST_CHUNK, "first_chunk", "waited"),
        (SeriesKind.RETRIED, "retried", ""),
        (SeriesKind.FAILED, "failed", ""),
    ):
        spent = _spent_lines(collected, occupied, inside) if occupied else {}
        models = call_lines.of_kind(collected, value, MODEL)
        # A server is the same for all ranks that call it.
        for (name, place), line in merged(models, lambda called: (called.name, called.place)).items():
            of_model = _per_call(kind, name, place, None, line)
            yield _of_model(of_model, spent, inside) if occupied else of_model
        if kind is SeriesKind.MODEL:
            for called, line in call_lines.of_kind(collected, value, TOOL).items():
                yield _spent_once(_per_call(SeriesKind.TOOL, called.name, "", called.rank, line), spent[called])


def _spent_lines(collected: Collected, occupied: str, inside: frozenset[tuple[str, str, str]]) -> dict[Called, Line]:
    """Return the time that the calls of each callee take: of the steps, or of the rollouts they are inside of."""
    of_rollouts = call_lines.of_calls(collected, f"{occupied}_in_rollouts")
    return {
        called: of_rollouts[called] if called[:3] in inside else line
        for called, line in call_lines.of_calls(collected, occupied).items()
    }


def _of_model(series: StepSeries, spent: dict[Called, Line], inside: frozenset[tuple[str, str, str]]) -> StepSeries:
    """Return the series of a model with the time that its calls took; by time as the mean of the ranks that call it."""
    model = MODEL, series.name, series.place
    lines = {called: line for called, line in spent.items() if called[:3] == model}
    once = _spent_once(series, merged(lines, lambda _: None).get(None))
    if series.line.by_step or model in inside:
        return once
    return replace(once, times=[times / len(lines) for times in once.times])


def _spent_once(series: StepSeries, occupied: Line | None) -> StepSeries:
    """Return the series with the time that its calls took, where those at once count once."""
    if occupied is None or occupied.x != series.line.x:
        return series
    times = [
        total / value if value > 0 else number
        for total, value, number in zip(occupied.totals, series.values, series.times, strict=True)
    ]
    return replace(series, times=times)


def _per_call(kind: SeriesKind, name: str, place: str, rank: int | None, line: Line) -> StepSeries:
    return StepSeries(kind, name, place, rank, line, line.means, list(line.numbers))


def _of_steps(collected: Collected) -> Iterator[StepSeries]:
    steps = collected.steps
    counts = {
        rank: dict(zip(line.x, line.numbers, strict=True))
        for (phase, rank), line in steps.parts.items()
        if phase == UNCOVERED
    }
    for (phase, rank), line in steps.parts.items():
        if rank in counts:
            yield _per_step(phase, rank, line, counts[rank])
    wholes = [
        (SeriesKind.STEP, "", steps.by_rank),
        (SeriesKind.PAUSE, "", steps.collecting),
        (SeriesKind.PHASE, BETWEEN, steps.between),
    ]
    if len(counts) > 1:
        # Of one rank the work is the step.
        wholes += [(SeriesKind.WORK, "", steps.own), (SeriesKind.WAIT, "", steps.waiting)]
    for kind, name, lines in wholes:
        for rank, line in lines.items():
            yield _per_call(kind, name, "", rank, line)


def _per_step(phase: str, rank: int | None, whole: Line, counts: dict[int, float]) -> StepSeries:
    """Return the time of a phase per step, in which it may come several times."""
    line = Line()
    for point in whole.points():
        if point[0] in counts:
            line.append(*point)
    times = [counts[first] for first in line.x]
    values = [total / number for total, number in zip(line.totals, times, strict=True)]
    return StepSeries(SeriesKind.PHASE, phase, "", rank, line, values, times)
