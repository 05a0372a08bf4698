"""Rollouts: how long they took, how many failed, and the slowest; their seconds and rewards over the steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.lines import Line, of_rows
from otel_rl.report.core.statistics import Spread, spreads
from otel_rl.report.subjects.calls.statistics import CallStatistics, SlowCall
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.semconv.attributes import RlTrajectoriesSourceValues as Source
from otel_rl.store.reader.otlp_values import int_or_none, seconds_or_none
from otel_rl.store.tables.load import AGENT_ROOT, ROLLOUT

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.timeline import Timeline
    from otel_rl.report.subjects.calls.call_texts import CallText
    from otel_rl.store.reader import Log

_SLOWEST = 15
_FAILED = (Status.FAILED, Status.CANCELLED)
#: Kind of the errors of trajectories whose spans are not there.
_NO_SPAN = "span left out"
#: Kind of the spans of rollouts -> source of their rows.
_SOURCES = {ROLLOUT: Source.ROLLOUT, AGENT_ROOT: Source.AGENT}

_DURATIONS = """
SELECT is_fair, bucket(seconds), count(*), sum(seconds), min(seconds), max(seconds)
FROM rollout WHERE kind = ? GROUP BY 1, 2"""
_ERRORS = "SELECT error, count(*) AS number FROM rollout WHERE kind = ? AND error <> '' GROUP BY error"
_SLOW = """
SELECT id, seconds, step, rank, error, trace, belongs_to, reward FROM rollout JOIN process USING (process)
WHERE kind = ? ORDER BY seconds DESC, started, rank, span LIMIT ?"""
_OVER_STEPS = """
SELECT rank, step, second, count({value}), sum({value}), min({value}), max({value}) FROM rollouts
WHERE kind = ? AND is_fair AND {value} IS NOT NULL GROUP BY rank, step, second ORDER BY rank, step, second"""


class RolloutRows:
    """What the rows of trajectories say of their durations and failures: also those have one that have no span."""

    def __init__(self) -> None:
        self.durations: dict[str, Spread] = {}
        self.failed: Counter[str] = Counter()
        #: Tool calls of all trajectories: known from messages also where no tool is recorded.
        self.told_tool_calls = 0
        #: Spans of the slowest rollouts, and what was said in them.
        self.slowest: list[Timeline] = []
        self.said: list[CallText] = []

    def add_log(self, log: Log) -> None:
        """Take in the rows of trajectories; other records are ignored."""
        if log.event != events.RL_TRAJECTORIES.name or not isinstance(log.body, dict):
            return
        source = str(log.attributes.get(names.RL_TRAJECTORIES_SOURCE) or "")
        seconds, statuses, calls = (_column(log.body, key) for key in _COLUMNS)
        for duration in map(seconds_or_none, seconds):
            if duration is not None:
                self.durations.setdefault(source, Spread()).add(duration)
        self.failed[source] += sum(status in _FAILED for status in statuses)
        self.told_tool_calls += sum(int_or_none(number) or 0 for number in calls)


_COLUMNS = (names.RL_ROLLOUT_SECONDS, names.RL_ROLLOUT_STATUS, names.RL_ROLLOUT_TOOL_CALLS)


def _column(body: dict[str, object], key: str) -> list[object]:
    column = body.get(key)
    return column if isinstance(column, list) else []


@dataclass(frozen=True, slots=True)
class RecordedRollouts:
    """Rollouts of one kind.

    Attributes:
        kind: rollouts, or agents that nothing else called.
        statistics: of all of them.
        fair: seconds of those with spans whatever became of them: parts of their spans are compared with these.
    """

    kind: str
    statistics: CallStatistics
    fair: Spread


@asked_once
def of_run(collected: Collected) -> RecordedRollouts:
    """Return rollouts; in a program that marks none, the agent calls that nothing else called."""
    marked = _of_kind(collected, ROLLOUT)
    return marked if marked.statistics.number else _of_kind(collected, AGENT_ROOT)


def _of_kind(collected: Collected, kind: str) -> RecordedRollouts:
    found = spreads(collected.tables.stream(_DURATIONS, kind))
    fair, whole = found.get((1,), Spread()), Spread()
    for spread in found.values():
        whole.merge(spread)
    spans = CallStatistics("all", whole, number=whole.cell.count)
    for row in collected.tables.stream(_ERRORS, kind):
        spans.add_errors(row["error"], None, row["number"])
    return RecordedRollouts(kind, _believed(spans, fair, collected[RolloutRows], _SOURCES[kind]), fair)


def _believed(spans: CallStatistics, fair: Spread, rows: RolloutRows, source: str) -> CallStatistics:
    """Return statistics of the rows, where more have a row than a span; the kinds of errors are those of the spans."""
    durations = rows.durations.get(source, Spread())
    if durations.cell.count <= spans.number:
        # A process that was killed leaves spans but not its last rows. Means are of those that were not chosen.
        return replace(spans, durations=fair) if fair.cell.count else spans
    without_span = rows.failed[source] - spans.failed
    errors = {**spans.errors, _NO_SPAN: without_span} if without_span > 0 else spans.errors
    return CallStatistics("all", durations, errors=errors, number=durations.cell.count)


def slowest(collected: Collected) -> list[SlowCall]:
    """Return the rollouts that took longest."""
    return [SlowCall(*row) for row in collected.tables.rows(_SLOW, of_run(collected).kind, _SLOWEST)]


@asked_once
def over_steps(collected: Collected, value: str) -> dict[int | None, Line]:
    """Return ``seconds`` or ``reward`` of the rollouts, by rank."""
    if collected.only is not None:
        return {}
    rows = collected.tables.stream(_OVER_STEPS.format(value=value), of_run(collected).kind)
    return {rank: line for (rank,), line in of_rows(rows).items()}
