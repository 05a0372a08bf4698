"""Tools, models, agents and services: how often they were called, how long that took, what failed, how many tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core.collected import asked_once
from otel_rl.report.core.statistics import Cell, Spread, spreads
from otel_rl.report.core.totals import MetricTotals, combined
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import ErrorTypeValues, RlToolOutcomeValues
from otel_rl.semconv.attributes import GenAiTokenTypeValues as TokenType
from otel_rl.store.tables.load import AGENT, MODEL, SERVED_TOOL, SERVICE, TOOL, WORKFLOW, model_name
from otel_rl.store.tables.operations import CANCELLED
from otel_rl.telemetry.attribute_values import is_cancellation

if TYPE_CHECKING:
    import sqlite3

    from otel_rl.report.core.collected import Collected
    from otel_rl.semconv.definitions import MetricDefinition
    from otel_rl.store.reader import Process
    from otel_rl.store.tables import RunTables

METRICS = (
    metrics.GEN_AI_CLIENT_OPERATION_DURATION,
    metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK,
    metrics.GEN_AI_CLIENT_TOKEN_USAGE,
    metrics.GEN_AI_EXECUTE_TOOL_DURATION,
    metrics.GEN_AI_INVOKE_AGENT_DURATION,
    metrics.RL_SERVICE_DURATION,
)
#: How a call or rollout ended, in one word; '' where it went well.
ENDING = f"CASE outcome WHEN '{CANCELLED}' THEN outcome ELSE error END"
#: Names of a kind that are told apart, those with most calls; and slowest calls.
_NAMES, _SLOWEST = 500, 15
_OTHERS = "(others)"

_NAMED = f"""
WITH often AS (SELECT name FROM call_total JOIN callee USING (callee) WHERE kind = ?1
               GROUP BY name ORDER BY sum(calls) DESC, min(callee) LIMIT {_NAMES})
SELECT CASE WHEN name IN often THEN name ELSE '{_OTHERS}' END AS called,"""
_SPREADS = f"""{_NAMED} bucket, sum(number), sum(total), min(low), max(high)
FROM call_spread JOIN callee USING (callee) WHERE kind = ?1 AND value = ?2 GROUP BY 1, 2"""
_ERRORS = f"""{_NAMED} error, outcome, sum(calls) AS calls
FROM call_error JOIN callee USING (callee) WHERE kind = ?1 GROUP BY 1, 2, 3"""
_TOKENS = f"""{_NAMED} sum(inputs) AS inputs, sum(input) AS input, sum(outputs) AS outputs, sum(output) AS output,
       sum(estimates) AS estimates, sum(estimated) AS estimated, sum(spoken) AS spoken, sum(spoke) AS spoke
FROM call_total JOIN callee USING (callee) WHERE kind = ?1 GROUP BY 1"""
_SERVED = "SELECT DISTINCT process, name FROM call JOIN callee USING (callee) WHERE kind = ?"
_ASKED = "SELECT {column} AS tools, count(*) AS number, min(step) AS first FROM calls WHERE {column} <> '' GROUP BY 1"
_SLOW = f"""
SELECT name, seconds, step, rank, {ENDING} AS error, trace, input_tokens, output_tokens, estimated_tokens
FROM call JOIN callee USING (callee) JOIN process USING (process)
WHERE kind = ? ORDER BY seconds DESC, started, rank, span LIMIT ?"""


@dataclass(slots=True)
class CallStatistics:
    """Calls of one tool, model or agent; durations in s. ``tokens`` by type, of the calls that say how many."""

    name: str
    durations: Spread = field(default_factory=Spread)
    first_chunk: Spread = field(default_factory=Spread)
    tokens: dict[str, Cell] = field(default_factory=dict)
    #: Chunks of streamed answers that do not say their tokens: about one token each.
    estimated: Cell = field(default_factory=Cell)
    #: Seconds of the calls whose output tokens are said or estimated.
    spoke: Cell = field(default_factory=Cell)
    errors: dict[str, int] = field(default_factory=dict)
    #: Calls that were cancelled, which is no error.
    cancelled: int = 0
    #: How the failed ones ended, in the words that all kinds of tools share.
    outcomes: dict[str, int] = field(default_factory=dict)
    number: int = 0

    @property
    def failed(self) -> int:
        """Calls that ended in an error."""
        return sum(self.errors.values())

    def add_errors(self, kind: object, outcome: object, number: int) -> None:
        """Count calls that failed or were cancelled."""
        if outcome == CANCELLED:
            self.cancelled += number
            return
        _add(self.errors, kind, number)
        _add(self.outcomes, outcome, number)


class SlowCall(NamedTuple):
    """One rollout, tool call or model call; ``reward`` is that of a rollout."""

    name: str
    seconds: float
    iteration: int | None
    rank: int | None
    error: str
    trace_id: str
    detail: str = ""
    reward: float | None = None


@asked_once
def tools(collected: Collected) -> list[CallStatistics]:
    """Return calls per tool, from its spans, or from its histogram where that saw more; most time first.

    Calls of which only the server's side was recorded count too.
    """
    called = _merged(collected, TOOL, metrics.GEN_AI_EXECUTE_TOOL_DURATION, (names.GEN_AI_TOOL_NAME,))
    known = {statistics.name for statistics in called}
    served = [one for name, one in _of_spans(collected.tables, SERVED_TOOL).items() if name not in known]
    return sorted([*called, *served], key=_by_time)


class Asked(NamedTuple):
    """How many answers of models ask for a tool, and the step of the first one."""

    number: int = 0
    first: int | None = None


@asked_once
def asked_tools(collected: Collected, column: str = "asked") -> dict[str, Asked]:
    """Return the answers that ask for each tool, whoever calls it; the one that most ask for first.

    ``column`` is ``asked``, or ``invalid`` for those that do with arguments that are no JSON.
    """
    found: dict[str, Asked] = {}
    for row in collected.tables.rows(_ASKED.format(column=column)):
        for tool in dict.fromkeys(map(str, json.loads(row["tools"]))):
            number, first = found.get(tool, Asked())
            steps = [step for step in (first, row["first"]) if step is not None]
            found[tool] = Asked(number + row["number"], min(steps, default=None))
    return dict(sorted(found.items(), key=lambda tool: (-tool[1].number, tool[0])))


@asked_once
def services(collected: Collected) -> list[CallStatistics]:
    """Return requests per named service, likewise."""
    return _merged(collected, SERVICE, metrics.RL_SERVICE_DURATION, (names.RL_SERVICE,))


@asked_once
def agents(collected: Collected) -> list[CallStatistics]:
    """Return calls per agent."""
    return _merged(collected, AGENT, metrics.GEN_AI_INVOKE_AGENT_DURATION, (names.GEN_AI_AGENT_NAME,))


def workflows(collected: Collected) -> list[CallStatistics]:
    """Return runs per workflow; runs of its agents do not count."""
    return sorted(_of_spans(collected.tables, WORKFLOW).values(), key=_by_time)


@asked_once
def models(collected: Collected) -> list[CallStatistics]:
    """Return calls per operation and model, with tokens and time to the first chunk."""
    key = (names.GEN_AI_OPERATION_NAME, names.GEN_AI_REQUEST_MODEL)
    merged = _merged(collected, MODEL, metrics.GEN_AI_CLIENT_OPERATION_DURATION, key)
    by_name = {statistics.name: statistics for statistics in merged}
    for values, series in collected.totals.by(metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK, *key).items():
        first_chunk, of_model = combined(series), by_name.get(_name(values))
        if of_model is not None and first_chunk.cell.count > of_model.first_chunk.cell.count:
            of_model.first_chunk = first_chunk
    for name, counted in _tokens(collected.totals, key).items():
        for kind, cell in counted.items():
            if name in by_name and cell.count > by_name[name].tokens.get(kind, Cell()).count:
                by_name[name].tokens[kind] = cell
    return merged


def _tokens(totals: MetricTotals, key: tuple[str, ...]) -> dict[str, dict[str, Cell]]:
    tokens: dict[str, dict[str, Cell]] = {}
    for values, series in totals.by(metrics.GEN_AI_CLIENT_TOKEN_USAGE, *key, names.GEN_AI_TOKEN_TYPE).items():
        by_type = tokens.setdefault(_name(values[:2]), {})
        by_type[str(values[2])] = combined(series).cell
    return tokens


def slowest(collected: Collected, kind: str) -> list[SlowCall]:
    """Return the tool or model calls that took longest."""
    found = []
    for row in collected.tables.rows(_SLOW, kind, _SLOWEST):
        name, seconds, step, rank, error, trace, *_ = row
        found.append(SlowCall(name, seconds, step, rank, error, trace, _usage(row) if kind == MODEL else ""))
    return found


def _usage(row: sqlite3.Row) -> str:
    known = ((row["input_tokens"], TokenType.INPUT), (row["output_tokens"], TokenType.OUTPUT))
    parts = [f"{number} {kind}" for number, kind in known if number is not None]
    if row["estimated_tokens"] is not None and row["output_tokens"] is None:
        parts.append(f"about {row['estimated_tokens']} output")
    return " / ".join(parts) + (" tokens" if parts else "")


def _of_spans(tables: RunTables, kind: str) -> dict[str, CallStatistics]:
    found = {
        name: CallStatistics(name, durations, number=durations.cell.count)
        for (name,), durations in spreads(tables.stream(_SPREADS, kind, "seconds")).items()
    }
    for row in tables.stream(_ERRORS, kind):
        found[row["called"]].add_errors(row["error"], row["outcome"], row["calls"])
    if kind == MODEL:
        for (name,), first_chunk in spreads(tables.stream(_SPREADS, kind, "first_chunk")).items():
            found[name].first_chunk = first_chunk
        for row in tables.stream(_TOKENS, kind):
            _add_tokens(found[row["called"]], row)
    return found


def _add_tokens(statistics: CallStatistics, row: sqlite3.Row) -> None:
    statistics.spoke = Cell(row["spoken"], row["spoke"] or 0.0)
    statistics.estimated = Cell(row["estimates"], row["estimated"] or 0.0)
    for kind, number, total in (
        (TokenType.INPUT, row["inputs"], row["input"]),
        (TokenType.OUTPUT, row["outputs"], row["output"]),
    ):
        if number:
            statistics.tokens[kind] = Cell(number, total)


def _merged(collected: Collected, kind: str, metric: MetricDefinition, key: tuple[str, ...]) -> list[CallStatistics]:
    result, serving = _of_spans(collected.tables, kind), _serving(collected) if kind == TOOL else frozenset()
    made_up = sum(statistics.outcomes.get(RlToolOutcomeValues.UNKNOWN_TOOL, 0) for statistics in result.values())
    for values, of_all in collected.totals.by(metric, *key).items():
        name = _name(values)
        series = [one for one in of_all if (one.process, name) not in serving] if name in result else of_all
        counted = CallStatistics(name, combined(series))
        counted.number = counted.durations.cell.count
        if name == ErrorTypeValues.OTHER and counted.number <= made_up:
            # Tools that a model made up, whose names only spans have.
            continue
        for of_process in series:
            if error := str(of_process.attributes.get(names.ERROR_TYPE) or ""):
                outcome = of_process.attributes.get(names.RL_TOOL_OUTCOME)
                ended = CANCELLED if is_cancellation(error) else outcome
                counted.add_errors(error, ended, of_process.spread.cell.count)
        known = result.get(counted.name)
        # A process that was killed leaves spans but not its last metrics: believe the larger count. Of equal ones
        # the spans know exact durations.
        if known is None or counted.number > known.number:
            if known is not None:
                counted.tokens, counted.first_chunk = known.tokens, known.first_chunk
                counted.estimated, counted.spoke = known.estimated, known.spoke
                counted.errors = _larger(counted.errors, known.errors)
                counted.outcomes = _larger(counted.outcomes, known.outcomes)
                counted.cancelled = max(counted.cancelled, known.cancelled)
            result[counted.name] = counted
    return sorted(result.values(), key=_by_time)


def _serving(collected: Collected) -> frozenset[tuple[Process, str]]:
    """Return processes with the tools that they serve: they measure calls that their callers have measured."""
    rows = collected.tables.rows(_SERVED, SERVED_TOOL)
    return frozenset((collected.tables.process(row["process"]), row["name"]) for row in rows)


def _by_time(statistics: CallStatistics) -> float:
    return -statistics.durations.cell.total


def _name(values: tuple[object, ...]) -> str:
    # An agent may have no name.
    return model_name(*values) if len(values) == 2 else str(values[0] or "invoke_agent")  # noqa: PLR2004 - and model


def _add(counts: dict[str, int], kind: object, number: int) -> None:
    if kind:
        counts[str(kind)] = counts.get(str(kind), 0) + number


def _larger(some: dict[str, int], others: dict[str, int]) -> dict[str, int]:
    return {kind: max(some.get(kind, 0), others.get(kind, 0)) for kind in {*some, *others}}
