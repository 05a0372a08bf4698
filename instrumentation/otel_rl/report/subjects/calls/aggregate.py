"""Rollouts, tool calls, model calls and agents: who took long, what failed, how many tokens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from otel_rl.report.core.operations import MODEL_OPERATIONS, error_of, is_fair
from otel_rl.report.core.over_time import OverTime
from otel_rl.report.core.statistics import Cell, Largest, Spread
from otel_rl.report.core.totals import MetricTotals, combined
from otel_rl.report.subjects.calls.calls_over_time import MODEL, TOOL, CallsOverTime
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, metrics, spans
from otel_rl.semconv.attributes import GenAiOperationNameValues as Operation
from otel_rl.semconv.attributes import GenAiTokenTypeValues as TokenType
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.semconv.attributes import RlTrajectoriesSourceValues as Source
from otel_rl.store.reader.otlp_values import int_or_none, seconds_or_none

if TYPE_CHECKING:
    from otel_rl.report.core.timeline import Timeline
    from otel_rl.semconv.definitions import MetricDefinition
    from otel_rl.store.reader import Log, Span

_SLOWEST = 15
_NAMES = 500
_CELLS = 20_000
#: Kind of the calls of tools on their server.
_SERVED = "served tool"
_SERVICE = "service"
_FAILED = (Status.FAILED, Status.CANCELLED)
#: Kind of the errors of trajectories whose spans are not there.
_NO_SPAN = "span left out"

METRICS = (
    metrics.GEN_AI_CLIENT_OPERATION_DURATION,
    metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK,
    metrics.GEN_AI_CLIENT_TOKEN_USAGE,
    metrics.GEN_AI_EXECUTE_TOOL_DURATION,
    metrics.GEN_AI_INVOKE_AGENT_DURATION,
    metrics.RL_ROLLOUT_DURATION,
    metrics.RL_SERVICE_DURATION,
)


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
    #: How the failed ones ended, in the words that all kinds of tools share.
    outcomes: dict[str, int] = field(default_factory=dict)
    number: int = 0

    @property
    def failed(self) -> int:
        """Calls that ended in an error."""
        return sum(self.errors.values())


@dataclass(frozen=True, slots=True)
class SlowCall:
    """One rollout, tool call or model call."""

    name: str
    seconds: float
    iteration: int | None
    rank: int | None
    error: str
    trace_id: str
    detail: str = ""
    #: Of a rollout.
    reward: float | None = None


class TrajectoryDurations:
    """Statistics of trajectories and the slowest of them; ``source`` is that of their rows."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._of_spans = CallStatistics("all")
        self._of_rows = CallStatistics("all")
        self._failed_rows = 0
        #: Seconds of those with spans whatever became of them: parts of their spans are compared with these.
        self.fair = Spread()
        self.slowest: Largest[SlowCall] = Largest(_SLOWEST)
        #: Seconds and rewards of trajectories, by rank.
        self.seconds, self.rewards = OverTime(_CELLS), OverTime(_CELLS)

    def add(self, span: Span, name: str) -> None:
        """Count one trajectory."""
        _count(self._of_spans, span)
        self.slowest.add(span.seconds, _slow(span, name, _rollout_detail(span)))
        if not is_fair(span):
            return
        self.fair.add(span.seconds)
        iteration, reward = (span.attributes.get(key) for key in (names.RL_LOOP_ITERATION, names.RL_ROLLOUT_REWARD))
        step, rank = iteration if isinstance(iteration, int) else None, span.process.rank
        self.seconds.add(rank, step, span.end, span.seconds, span.process.attempt)
        if isinstance(reward, (int, float)):
            self.rewards.add(rank, step, span.end, float(reward), span.process.attempt)

    def add_rows(self, log: Log) -> None:
        """Count the rows of a record: all trajectories have one, also those whose spans were left out."""
        if log.attributes.get(names.RL_TRAJECTORIES_SOURCE) != self._source or not isinstance(log.body, dict):
            return
        seconds, statuses = (log.body.get(key) for key in (names.RL_ROLLOUT_SECONDS, names.RL_ROLLOUT_STATUS))
        for value in seconds if isinstance(seconds, list) else ():
            duration = seconds_or_none(value)
            if duration is not None:
                self._of_rows.number += 1
                self._of_rows.durations.add(duration)
        self._failed_rows += sum(status in _FAILED for status in (statuses if isinstance(statuses, list) else ()))

    @property
    def statistics(self) -> CallStatistics:
        """Of the rows, where more have a row than a span; the kinds of errors are those of the spans."""
        rows, spans = self._of_rows, self._of_spans
        if rows.number <= spans.number:
            # A process that was killed leaves spans but not its last rows. Means are of those that were not chosen.
            return replace(spans, durations=self.fair) if self.fair.cell.count else spans
        without_span = self._failed_rows - spans.failed
        errors = {**spans.errors, _NO_SPAN: without_span} if without_span > 0 else spans.errors
        return replace(rows, errors=errors, outcomes=spans.outcomes)

    def leave_out(self, attempts: frozenset[tuple[int, ...]]) -> None:
        """Leave the steps of these attempts out of all series."""
        self.seconds.leave_out(attempts)
        self.rewards.leave_out(attempts)


class Calls:
    """Aggregates the spans of agents; metrics, where present, count also the calls that left no span."""

    def __init__(self) -> None:
        self._rollouts = TrajectoryDurations(Source.ROLLOUT)
        self._agent_roots = TrajectoryDurations(Source.AGENT)
        self.over_time = CallsOverTime()
        self.slowest_tools: Largest[SlowCall] = Largest(_SLOWEST)
        self.slowest_model_calls: Largest[SlowCall] = Largest(_SLOWEST)
        #: Tool calls in the rows of all trajectories: known from messages also where no tool is recorded.
        self.told_tool_calls = 0
        #: Spans of the slowest rollouts.
        self.slowest_rollouts: list[Timeline] = []
        self._spans: dict[str, dict[str, CallStatistics]] = {
            TOOL: {},
            MODEL: {},
            "agent": {},
            _SERVED: {},
            _SERVICE: {},
        }

    def add_span(self, span: Span) -> None:
        """Take in a span; only rollouts and the operations of agents count."""
        if span.name == spans.RL_ROLLOUT.type:
            self._rollouts.add(span, str(span.attributes.get(names.RL_ROLLOUT_ID) or span.trace_id[:8]))
            self.over_time.add_rollout(span)
            return
        service = span.attributes.get(names.RL_SERVICE)
        if service is not None:
            self._count(_SERVICE, str(service), span)
            return
        operation = span.attributes.get(names.GEN_AI_OPERATION_NAME)
        if operation == Operation.EXECUTE_TOOL:
            tool = str(span.attributes.get(names.GEN_AI_TOOL_NAME) or span.name)
            if span.is_server:
                # The server's side of a call (of MCP, say): the caller's side is the one that counts.
                self._count(_SERVED, tool, span)
                return
            self._count(TOOL, tool, span)
            self.over_time.add(TOOL, tool, span, error_of(span))
            self.slowest_tools.add(span.seconds, _slow(span, tool))
        elif operation in MODEL_OPERATIONS:
            model = _model(operation, span.attributes.get(names.GEN_AI_REQUEST_MODEL))
            self._count(MODEL, model, span)
            self.over_time.add(MODEL, model, span, error_of(span))
            self.slowest_model_calls.add(span.seconds, _slow(span, model, _usage(span)))
        elif operation in (Operation.INVOKE_AGENT, Operation.INVOKE_WORKFLOW):
            agent = str(span.attributes.get(names.GEN_AI_AGENT_NAME) or span.name)
            self._count("agent", agent, span)
            if not span.parent_id:
                self._agent_roots.add(span, f"{agent} {span.trace_id[:8]}")

    def add_log(self, log: Log) -> None:
        """Take in the rows of trajectories; other records are ignored."""
        if log.event == events.RL_TRAJECTORIES.name:
            self._rollouts.add_rows(log)
            self._agent_roots.add_rows(log)
            calls = log.body.get(names.RL_ROLLOUT_TOOL_CALLS) if isinstance(log.body, dict) else None
            self.told_tool_calls += sum(map(_whole_number, calls if isinstance(calls, list) else ()))

    def leave_out(self, attempts: frozenset[tuple[int, ...]]) -> None:
        """Leave the steps of these attempts out of all series."""
        for series in (self._rollouts, self._agent_roots, self.over_time):
            series.leave_out(attempts)

    @property
    def rollouts(self) -> TrajectoryDurations:
        """Rollouts; in a program that marks none, the agent calls that nothing else called."""
        return self._rollouts if self._rollouts.statistics.number else self._agent_roots

    @property
    def marks_rollouts(self) -> bool:
        """True where the program marks its rollouts: their calls have the id of one."""
        return bool(self._rollouts.statistics.number)

    def _count(self, kind: str, name: str, span: Span) -> None:
        if not is_fair(span):
            return  # the histograms have it
        known = self._spans[kind]
        if name not in known and len(known) >= _NAMES:
            name = "(others)"
        statistics = known.setdefault(name, CallStatistics(name))
        _count(statistics, span)
        if kind == MODEL:
            _count_usage(statistics, span)

    def tools(self, totals: MetricTotals) -> list[CallStatistics]:
        """Return calls per tool, from its spans, or from its histogram where that saw more; most time first.

        Calls of which only the server's side was recorded count too.
        """
        called = self._merged(TOOL, totals, metrics.GEN_AI_EXECUTE_TOOL_DURATION, (names.GEN_AI_TOOL_NAME,))
        known = {statistics.name for statistics in called}
        served = [statistics for name, statistics in self._spans[_SERVED].items() if name not in known]
        return sorted([*called, *served], key=_by_time)

    def services(self, totals: MetricTotals) -> list[CallStatistics]:
        """Return requests per named service, likewise."""
        return self._merged(_SERVICE, totals, metrics.RL_SERVICE_DURATION, (names.RL_SERVICE,))

    def agents(self, totals: MetricTotals) -> list[CallStatistics]:
        """Return calls per agent."""
        return self._merged("agent", totals, metrics.GEN_AI_INVOKE_AGENT_DURATION, (names.GEN_AI_AGENT_NAME,))

    def models(self, totals: MetricTotals) -> list[CallStatistics]:
        """Return calls per operation and model, with tokens and time to the first chunk."""
        key = (names.GEN_AI_OPERATION_NAME, names.GEN_AI_REQUEST_MODEL)
        merged = self._merged(MODEL, totals, metrics.GEN_AI_CLIENT_OPERATION_DURATION, key)
        by_name = {statistics.name: statistics for statistics in merged}
        for values, series in totals.by(metrics.GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK, *key).items():
            first_chunk, of_model = combined(series), by_name.get(_name(values))
            if of_model is not None and first_chunk.cell.count > of_model.first_chunk.cell.count:
                of_model.first_chunk = first_chunk
        tokens: dict[str, dict[str, Cell]] = {}
        for values, series in totals.by(metrics.GEN_AI_CLIENT_TOKEN_USAGE, *key, names.GEN_AI_TOKEN_TYPE).items():
            by_type = tokens.setdefault(_name(values[:2]), {})
            by_type[str(values[2])] = combined(series).cell
        for name, counted in tokens.items():
            for kind, cell in counted.items():
                if name in by_name and cell.count > by_name[name].tokens.get(kind, Cell()).count:
                    by_name[name].tokens[kind] = cell
        return merged

    def _merged(
        self, kind: str, totals: MetricTotals, metric: MetricDefinition, key: tuple[str, ...]
    ) -> list[CallStatistics]:
        result = dict(self._spans[kind])
        for values, series in totals.by(metric, *key).items():
            counted = CallStatistics(_name(values), combined(series))
            counted.number = counted.durations.cell.count
            for of_process in series:
                error = of_process.attributes.get(names.ERROR_TYPE)
                if error:
                    _add(counted.errors, error, of_process.spread.cell.count)
                    _add(
                        counted.outcomes, of_process.attributes.get(names.RL_TOOL_OUTCOME), of_process.spread.cell.count
                    )
            known = result.get(counted.name)
            # A process that was killed leaves spans but not its last metrics: believe the larger count. Of equal ones
            # the spans know exact durations.
            if known is None or counted.number > known.number:
                if known is not None:
                    counted.tokens, counted.first_chunk = known.tokens, known.first_chunk
                    counted.estimated, counted.spoke = known.estimated, known.spoke
                    counted.errors = _larger(counted.errors, known.errors)
                    counted.outcomes = _larger(counted.outcomes, known.outcomes)
                result[counted.name] = counted
        return sorted(result.values(), key=_by_time)


def _whole_number(value: object) -> int:
    return int_or_none(value) or 0


def _by_time(statistics: CallStatistics) -> float:
    return -statistics.durations.cell.total


def _name(values: tuple[object, ...]) -> str:
    return _model(*values) if len(values) == 2 else str(values[0])  # noqa: PLR2004 - operation and model


def _model(operation: object, model: object) -> str:
    return f"{operation} {model or 'unknown model'}"


def _count(statistics: CallStatistics, span: Span) -> None:
    statistics.number += 1
    statistics.durations.add(span.seconds)
    error = error_of(span)
    if error:
        _add(statistics.errors, error, 1)
        _add(statistics.outcomes, span.attributes.get(names.RL_TOOL_OUTCOME), 1)


def _add(counts: dict[str, int], kind: object, number: int) -> None:
    if kind:
        counts[str(kind)] = counts.get(str(kind), 0) + number


def _larger(some: dict[str, int], others: dict[str, int]) -> dict[str, int]:
    return {kind: max(some.get(kind, 0), others.get(kind, 0)) for kind in {*some, *others}}


def _count_usage(statistics: CallStatistics, span: Span) -> None:
    for attribute, kind in _USAGE:
        value = span.attributes.get(attribute)
        if isinstance(value, (int, float)):
            statistics.tokens.setdefault(kind, Cell()).add(value)
    estimated = span.attributes.get(names.RL_INFERENCE_OUTPUT_TOKENS_ESTIMATED)
    if names.GEN_AI_USAGE_OUTPUT_TOKENS in span.attributes:
        statistics.spoke.add(span.seconds)
    elif isinstance(estimated, int):
        statistics.estimated.add(estimated)
        statistics.spoke.add(span.seconds)
    first_chunk = seconds_or_none(span.attributes.get(names.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK))
    if first_chunk is not None:
        statistics.first_chunk.add(first_chunk)


_USAGE = ((names.GEN_AI_USAGE_INPUT_TOKENS, TokenType.INPUT), (names.GEN_AI_USAGE_OUTPUT_TOKENS, TokenType.OUTPUT))


def _slow(span: Span, name: str, detail: str = "") -> SlowCall:
    iteration, reward = (span.attributes.get(key) for key in (names.RL_LOOP_ITERATION, names.RL_ROLLOUT_REWARD))
    return SlowCall(
        name=name,
        seconds=span.seconds,
        iteration=iteration if isinstance(iteration, int) else None,
        rank=span.process.rank,
        error=error_of(span),
        trace_id=span.trace_id,
        detail=detail,
        reward=float(reward) if isinstance(reward, (int, float)) else None,
    )


def _rollout_detail(span: Span) -> str:
    parts = (("group", names.RL_GROUP_ID), ("sample", names.RL_SAMPLE_ID), ("policy", names.RL_POLICY_VERSION))
    return ", ".join(f"{label} {span.attributes[key]}" for label, key in parts if key in span.attributes)


def _usage(span: Span) -> str:
    parts = [f"{span.attributes[key]} {kind}" for key, kind in _USAGE if key in span.attributes]
    estimated = span.attributes.get(names.RL_INFERENCE_OUTPUT_TOKENS_ESTIMATED)
    if estimated is not None and names.GEN_AI_USAGE_OUTPUT_TOKENS not in span.attributes:
        parts.append(f"about {estimated} output")
    return " / ".join(parts) + (" tokens" if parts else "")
