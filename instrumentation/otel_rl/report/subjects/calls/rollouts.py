"""Rollouts: how long they took, how many failed, and the slowest; their seconds and rewards over the steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.lines import Line, of_rows
from otel_rl.report.core.statistics import Spread, spreads
from otel_rl.report.subjects.calls.statistics import ENDING, CallStatistics, SlowCall
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.semconv.attributes import RlTrajectoriesSourceValues as Source
from otel_rl.store.tables.load import AGENT_ROOT, ROLLOUT

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected

#: Code of the finding of rollouts that fail.
FAILING = "failing_rollouts"
_SLOWEST = 15
#: Kind of the errors of trajectories whose spans are not there.
_NO_SPAN = "span left out"
#: Kind of the spans of rollouts -> source of their rows.
_SOURCES = {ROLLOUT: Source.ROLLOUT, AGENT_ROOT: Source.AGENT}

_DURATIONS = """
SELECT is_fair, bucket(seconds), count(*), sum(seconds), min(seconds), max(seconds)
FROM rollout WHERE kind = ? GROUP BY 1, 2"""
_ROWS = """
SELECT bucket(seconds), count(*), sum(seconds), min(seconds), max(seconds) FROM sample
WHERE source = ? AND seconds BETWEEN 0 AND 1e9 GROUP BY 1"""
_ROWS_THAT_ENDED = "SELECT count(*) FROM sample WHERE source = ? AND status = ?"
#: Of all trajectories: they are known from messages also where no tool is recorded.
_TOLD_TOOL_CALLS = "SELECT coalesce(sum(tool_calls), 0) FROM sample"
_ERRORS = "SELECT error, outcome, count(*) AS number FROM rollout WHERE kind = ? GROUP BY error, outcome"
_SLOW = f"""
SELECT id, seconds, step, rank, {ENDING}, trace, belongs_to, reward FROM rollout JOIN process USING (process)
WHERE kind = ? ORDER BY seconds DESC, started, rank, span LIMIT ?"""
_OVER_STEPS = """
SELECT rank, step, second, count({value}), sum({value}), min({value}), max({value}) FROM rollouts
WHERE kind = ? AND is_fair AND {value} IS NOT NULL GROUP BY rank, step, second ORDER BY rank, step, second"""
#: From the begin of a rollout to its first call of a tool or model.
_FIRST_CALLS = """
WITH first AS (SELECT trace, rollout, min(started) AS called FROM call JOIN callee USING (callee)
               WHERE rollout IS NOT NULL AND kind IN ('tool', 'model') GROUP BY trace, rollout),
     waited AS (SELECT r.rank, r.step, r.second, max(called - started, 0) / 1e9 AS seconds
                FROM rollouts r JOIN first ON first.trace = r.trace AND first.rollout = r.id
                WHERE kind = 'rollout' AND is_fair)
SELECT rank, step, second, count(*), sum(seconds), min(seconds), max(seconds) FROM waited
GROUP BY rank, step, second ORDER BY rank, step, second"""


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
        spans.add_errors(row["error"], row["outcome"], row["number"])
    return RecordedRollouts(kind, _believed(collected, spans, fair, _SOURCES[kind]), fair)


def _believed(collected: Collected, spans: CallStatistics, fair: Spread, source: str) -> CallStatistics:
    """Return statistics of the rows, where more have a row than a span; the kinds of errors are those of the spans.

    Rows always show that a run was cancelled, spans of libraries do not.
    """
    spans.cancelled = max(spans.cancelled, collected.tables.value(_ROWS_THAT_ENDED, source, Status.CANCELLED))
    durations = spreads(collected.tables.stream(_ROWS, source)).get((), Spread())
    if durations.cell.count <= spans.number:
        # A process that was killed leaves spans but not its last rows. Means are of those that were not chosen.
        return replace(spans, durations=fair) if fair.cell.count else spans
    without_span = collected.tables.value(_ROWS_THAT_ENDED, source, Status.FAILED) - spans.failed
    errors = {**spans.errors, _NO_SPAN: without_span} if without_span > 0 else spans.errors
    return CallStatistics("all", durations, errors=errors, cancelled=spans.cancelled, number=durations.cell.count)


def told_tool_calls(collected: Collected) -> int:
    """Return the tool calls in the rows of all samples."""
    return int(collected.tables.value(_TOLD_TOOL_CALLS))


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


@asked_once
def until_first_call(collected: Collected) -> dict[int | None, Line]:
    """Return the seconds of the rollouts before their first call, by rank."""
    if collected.only is not None:
        return {}
    return {rank: line for (rank,), line in of_rows(collected.tables.stream(_FIRST_CALLS)).items()}
