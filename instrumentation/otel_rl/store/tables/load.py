"""The rows of a record: the only module that knows by which names the wire calls them.

The order of the records does not matter: what depends on it is asked of the tables.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events, spans
from otel_rl.semconv.attributes import GenAiOperationNameValues as Operation
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none, seconds_or_none
from otel_rl.store.reader.records import ERROR_SEVERITY, Log, Span
from otel_rl.store.reader.uncaught_exceptions import exception_of
from otel_rl.store.tables import engine_stages
from otel_rl.store.tables.operations import MODEL_OPERATIONS, error_of, is_fair, outcome_of
from otel_rl.store.tables.samples import SCORE, RecordedSample, cells, scores, told
from otel_rl.store.tables.scalars import LoggedKeys
from otel_rl.telemetry.exception_text import position

if TYPE_CHECKING:
    from otel_rl.store.reader.processes import Process
    from otel_rl.store.reader.records import Point, Record, SpanEvent

#: Kinds of callees.
TOOL, SERVED_TOOL, MODEL, SERVICE, REWARD = "tool", "served tool", "model", "service", "reward"
AGENT, WORKFLOW = "agent", "workflow"
#: Kinds of rollouts.
ROLLOUT, AGENT_ROOT = "rollout", "agent"
#: Names of rows of ``part`` that are no parts of the start.
WHOLE_RUN, OTHER_OPERATION = "run", "operation"
#: Attributes with what was said in a call.
CONTENT = (
    names.RL_INFERENCE_EARLIER_MESSAGES,
    names.GEN_AI_INPUT_MESSAGES,
    names.GEN_AI_OUTPUT_MESSAGES,
    names.GEN_AI_TOOL_CALL_ARGUMENTS,
    names.GEN_AI_TOOL_CALL_RESULT,
)
#: Attributes of the steps of ranks: samples, collectives, and sums of what judges did; those of engines beside them.
STEP_VALUES = (
    names.RL_LOOP_SAMPLES,
    names.TORCH_DISTRIBUTED_CALLS,
    names.RL_REWARD_JUDGE_CALLS,
    names.RL_REWARD_JUDGE_ERRORS,
    names.RL_REWARD_JUDGE_INPUT_TOKENS,
    names.RL_REWARD_JUDGE_OUTPUT_TOKENS,
    names.RL_REWARD_JUDGE_SECONDS,
)
_STEPS = {spans.RL_LOOP.type, spans.RL_RANK_STEP.type}
_PARTS = {spans.RL_RUN.type, spans.RL_RUN_PART.type}
_SECOND = 1_000_000_000
_RUNS = {
    Operation.INVOKE_AGENT: (AGENT, names.GEN_AI_AGENT_NAME),
    Operation.INVOKE_WORKFLOW: (WORKFLOW, names.GEN_AI_WORKFLOW_NAME),
}
_BELONGS_TO = (("group", names.RL_GROUP_ID), ("sample", names.RL_SAMPLE_ID), ("policy", names.RL_POLICY_VERSION))
#: Events of trajectories, and with what a trainer logs those that are no rows of ``event``: most of what is logged.
_OF_SAMPLES = frozenset(
    {events.RL_TRAJECTORIES.name, events.RL_TRAJECTORIES_PENDING.name, events.RL_TRAJECTORIES_CHANGES.name}
)
_IN_OTHER_TABLES = _OF_SAMPLES | {events.RL_STEP.name, events.RL_LOG_ERROR.name}
#: Kind of the errors of calls of tools that do not exist, as their events have them.
UNKNOWN_TOOL = "unknown tool"

Row = tuple[Any, ...]


class Loader:
    """Collects rows by table; whoever writes them takes them out of :attr:`rows`."""

    def __init__(self, tables: tuple[str, ...]) -> None:
        self.rows: dict[str, list[Row]] = {table: [] for table in tables}
        #: Number of each process, and number of each callee by kind, name and place.
        self.processes: dict[Process, int] = {}
        self.callees: dict[tuple[str, str, str], int] = {}
        #: Attributes, events and links that were cut off from spans, by process.
        self.cut_off: dict[Process, int] = {}
        self.logged = LoggedKeys()
        self.steps = self.samples = self.changes = 0

    def add(self, record: Record) -> None:
        """Make the rows of a record."""
        process = self.processes.get(record.process)
        if process is None:
            process = self.processes[record.process] = len(self.processes) + 1
        if isinstance(record, Span):
            self._add_span(record, process)
        elif isinstance(record, Log):
            self._add_log(record, process)
        else:
            self._add_point(record, process)

    # -- spans -----------------------------------------------------------------------------------------------------

    def _add_span(self, span: Span, process: int) -> None:
        attributes, error = span.attributes, error_of(span)
        step = int_or_none(attributes.get(names.RL_LOOP_ITERATION))
        second = span.end // _SECOND if step is None else None
        self._add_operation(span, process, (step, second), error)
        if span.name in _STEPS:
            self._add_step(span, process, step)
        elif names.RL_PHASE in attributes:
            self._add_phase(span, process, step)
        elif span.name in _PARTS:
            name = str(attributes.get(names.RL_RUN_PART)) if span.name == spans.RL_RUN_PART.type else WHOLE_RUN
            rows = map(int_or_none, map(attributes.get, (names.RL_DATASET_ROWS_BEFORE, names.RL_DATASET_ROWS_AFTER)))
            self.rows["part"].append((process, name, span.start, span.end, *rows))
        if (reward := attributes.get(names.RL_REWARD_NAME)) is not None:
            self._add_call(span, process, (REWARD, str(reward), ""), (step, second), error)
        if error:
            message = "" if span.message == error else span.message
            self.rows["error"].append(
                (process, span.name, error, message, step, span.start, span.end, span.span_id, span.parent_id, 1,
                 int(span.is_server), None)
            )  # fmt: skip
        if span.dropped:
            self.cut_off[span.process] = self.cut_off.get(span.process, 0) + span.dropped

    def _add_operation(self, span: Span, process: int, at: tuple[int | None, int | None], error: str) -> None:
        attributes = span.attributes
        if span.name == spans.RL_ROLLOUT.type:
            name = str(attributes.get(names.RL_ROLLOUT_ID) or span.trace_id[:8])
            self._add_rollout(span, (process, ROLLOUT, name, *at), error)
        elif (called := _called(span)) is not None:
            self._add_call(span, process, called, at, error)
            if called[0] in (AGENT, WORKFLOW) and not span.parent_id:
                name = f"{called[1]} {span.trace_id[:8]}"
                self._add_rollout(span, (process, AGENT_ROOT, name, *at), error)
        elif names.GEN_AI_OPERATION_NAME in attributes or names.MCP_METHOD_NAME in attributes:
            self.rows["part"].append((process, OTHER_OPERATION, span.start, span.end, None, None))

    def _add_step(self, span: Span, process: int, step: int | None) -> None:
        get = span.attributes.get
        self.steps += 1
        collecting = get(names.RL_LOOP_GC_TIME)
        waited = _seconds(get(names.TORCH_DISTRIBUTED_WAIT_TIME)) + _seconds(get(names.TORCH_DISTRIBUTED_HOST_TIME))
        self.rows["step"].append(
            (self.steps, process, int(span.name == spans.RL_LOOP.type), str(get(names.RL_LOOP_NAME) or ""), step,
             int_or_none(get(names.RL_RANK)), get(names.RL_LOOP_SOURCE), span.start, span.end, span.seconds,
             min(waited, span.seconds), collecting if isinstance(collecting, float) else None,
             int_or_none(get(names.TORCH_DISTRIBUTED_UNSEEN)), seconds_or_none(get(names.RL_LOOP_CPU_TIME)),
             seconds_or_none(get(names.RL_TELEMETRY_CPU_TIME)), seconds_or_none(get(names.RL_LOOP_CPU_WAIT_TIME)),
             int_or_none(get(names.RL_LOOP_CPU_STEPS)), int_or_none(get(names.RL_LOOP_MEMORY)),
             span.trace_id, span.span_id, span.parent_id, 0, None, None, 0.0, None)
        )  # fmt: skip
        of_engines = (name for name in span.attributes if name.startswith(engine_stages.NAMESPACE))
        for name in (*STEP_VALUES, *of_engines):
            if (value := float_or_none(get(name))) is not None:
                self.rows["step_value"].append((self.steps, name, value))
        for event in span.events:
            if event.name == events.TORCH_DISTRIBUTED_COLLECTIVE.name:
                self._add_collective(event)

    def _add_collective(self, event: SpanEvent) -> None:
        attributes = event.attributes
        seconds = float_or_none(attributes.get(names.TORCH_DISTRIBUTED_DURATION))
        if seconds is not None:
            self.rows["collective"].append(
                (self.steps, str(attributes.get(names.TORCH_DISTRIBUTED_OPERATION, "?")),
                 str(attributes.get(names.TORCH_DISTRIBUTED_GROUP_NAME, "")), event.time,
                 int_or_none(attributes.get(names.TORCH_DISTRIBUTED_GROUP_SIZE)), seconds,
                 int_or_none(attributes.get(names.TORCH_DISTRIBUTED_MESSAGE_SIZE)))
            )  # fmt: skip

    def _add_phase(self, span: Span, process: int, step: int | None) -> None:
        get = span.attributes.get
        reward, operation = get(names.RL_REWARD_NAME), get(names.RL_SYNC_OPERATION)
        self.rows["new_phase"].append(
            (process, str(get(names.RL_PHASE)), step, None if reward is None else str(reward),
             int(names.RL_SUSPENDED in span.attributes), int(names.RL_ROLLOUT_ID in span.attributes),
             None if operation is None else str(operation), float_or_none(get(names.RL_ACTIVE_DURATION)),
             span.start, span.end, span.seconds, span.trace_id, span.span_id, span.parent_id)
        )  # fmt: skip

    def _add_call(
        self, span: Span, process: int, called: tuple[str, str, str], at: tuple[int | None, int | None], error: str
    ) -> None:
        get = span.attributes.get
        callee = self.callees.get(called)
        if callee is None:
            callee = self.callees[called] = len(self.callees) + 1
        rollout, retries = get(names.RL_ROLLOUT_ID), get(names.RL_INFERENCE_RETRIES)
        self.rows["call"].append(
            (process, callee, *at, span.start, span.end, span.seconds, error, outcome_of(span),
             int(is_fair(span)), None if rollout is None else str(rollout), int(span.is_server),
             int(names.RL_ENGINE_REQUESTS in span.attributes),
             float_or_none(get(names.RL_ENGINE_QUEUE_TIME)), _json_or_none(engine_stages.times_of(span) or None),
             # Other instrumentors write it, too.
             seconds_or_none(get(names.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK)), int_or_none(retries),
             _number(get(names.GEN_AI_USAGE_INPUT_TOKENS)), _number(get(names.GEN_AI_USAGE_OUTPUT_TOKENS)),
             int_or_none(get(names.RL_TOOL_RESULT_SIZE)), int_or_none(get(names.RL_INFERENCE_OUTPUT_TOKENS_ESTIMATED)),
             _json_or_none(get(names.RL_INFERENCE_TOOL_CALLS)),
             _json_or_none(get(names.RL_INFERENCE_INVALID_TOOL_CALLS)),
             int(any(name in span.attributes for name in CONTENT)), span.trace_id, span.span_id, span.parent_id)
        )  # fmt: skip

    def _add_rollout(self, span: Span, begin: Row, error: str) -> None:
        get = span.attributes.get
        belongs_to = ", ".join(f"{label} {get(key)}" for label, key in _BELONGS_TO if key in span.attributes)
        self.rows["rollout"].append(
            (*begin, span.start, span.end, span.seconds, error, outcome_of(span), int(is_fair(span)),
             float_or_none(get(names.RL_ROLLOUT_REWARD)), belongs_to, span.trace_id, span.span_id)
        )  # fmt: skip

    # -- log records -----------------------------------------------------------------------------------------------

    def _add_log(self, log: Log, process: int) -> None:
        step = int_or_none(log.attributes.get(names.RL_LOOP_ITERATION))
        if log.event in _OF_SAMPLES:
            self._add_samples(log, process, step)
        elif log.event == events.GEN_AI_EVALUATION_RESULT.name and names.RL_ROLLOUT_ID not in log.attributes:
            name = str(log.attributes.get(names.GEN_AI_EVALUATION_NAME) or "score")
            score = float_or_none(log.attributes.get(names.GEN_AI_EVALUATION_SCORE_VALUE))
            if score is not None:
                self.rows["score"].append((None, process, SCORE, name, score, None, 0, step, log.time))
        elif log.event == events.RL_STEP.name and isinstance(log.body, dict):
            self._add_scalars(log, process, step)
        if log.event and log.event not in _IN_OTHER_TABLES:
            self.rows["event"].append(
                (process, log.event, log.time, step, log.severity, log.severity_text, _json(log.body),
                 _json(log.attributes), log.scope, log.trace_id, log.span_id)
            )  # fmt: skip
        if log.event == events.RL_PROCESS_EXCEPTION.name:
            uncaught = exception_of(log)
            what = log.time, step, uncaught.message, uncaught.location
            self.rows["exception"] += [(process, kind, *what) for kind in uncaught.kinds]
        elif log.event == events.RL_LOG_ERROR.name:
            self._add_logged_error(log, process, step)
        elif log.severity >= ERROR_SEVERITY or log.event == events.RL_TOOL_UNKNOWN.name:
            self._add_error(log, process, step)

    def _add_scalars(self, log: Log, process: int, step: int | None) -> None:
        get = log.attributes.get
        loop, first = str(get(names.RL_LOOP_NAME) or ""), int_or_none(get(names.RL_STEP_FIRST))
        self.rows["scalar"] += self.logged.add(
            process, loop, step, first, log.time, log.body,
            is_guessed=get(names.RL_LOOP_SOURCE) == LoopSource.GUESSED,
        )  # fmt: skip

    def _add_logged_error(self, log: Log, process: int, step: int | None) -> None:
        get = log.attributes.get
        place = position(str(get(names.CODE_FILE_PATH) or ""), int_or_none(get(names.CODE_LINE_NUMBER)) or 0)
        self.rows["logged_error"].append(
            (process, log.time, step, str(get(names.RL_LOG_LOGGER) or ""), str(get(names.EXCEPTION_TYPE) or ""), place,
             str(get(names.EXCEPTION_MESSAGE) or ""), int(get(names.RL_EXCEPTION_NEVER_RETRIEVED) is True),
             _count(get(names.RL_LOG_RECORDS)))
        )  # fmt: skip

    def _add_error(self, log: Log, process: int, step: int | None) -> None:
        get = log.attributes.get
        if log.event == events.RL_TOOL_UNKNOWN.name and log.severity < ERROR_SEVERITY:
            what = f"tool {get(names.GEN_AI_TOOL_NAME)}", UNKNOWN_TOOL, ""
        else:
            kind = str(get(names.EXCEPTION_TYPE) or log.severity_text or "error")
            message = str(get(names.EXCEPTION_MESSAGE) or log.body or log.event)
            what = log.event or f"log {log.scope}".strip(), kind, message
        child = int_or_none(get(names.RL_CHILD_PID))
        self.rows["error"].append((process, *what, step, log.time, log.time, log.span_id, "", 0, 0, child))

    # -- trajectories ----------------------------------------------------------------------------------------------

    def _add_samples(self, log: Log, process: int, step: int | None) -> None:
        get, body = log.attributes.get, log.body if isinstance(log.body, dict) else {}
        left_out = _count(get(names.RL_TRAJECTORIES_LEFT_OUT))
        if log.event == events.RL_TRAJECTORIES_CHANGES.name:
            self.rows["ended"].append((process, None, None, 0, 0, left_out))
            for row in told(body):
                self._add_change(log, process, row)
            return
        source = str(get(names.RL_TRAJECTORIES_SOURCE) or "")
        if log.event == events.RL_TRAJECTORIES.name:
            started = _count(get(names.RL_TRAJECTORIES_STARTED))
            self.rows["ended"].append((process, source, step, started, left_out, 0))
        begin = process, int_or_none(get(names.RL_TRAJECTORIES_CALLER_PID)), source, str(get(names.RL_LOOP_NAME) or "")
        end = (
            int_or_none(get(names.RL_TRAJECTORIES_STEP)), int_or_none(get(names.RL_TRAJECTORIES_RESTARTS)) or 0,
            int_or_none(get(names.RL_GROUP_SIZE)), int(log.event == events.RL_TRAJECTORIES_PENDING.name),
        )  # fmt: skip
        for row in told(body):
            row.estimator = get(names.RL_ADVANTAGE_ESTIMATOR)
            ended = int_or_none(row.columns.pop(names.RL_ROLLOUT_END_TIME, None)) or log.time
            at = step, ended // _SECOND if step is None else None, log.time, ended
            self.samples += 1
            self.rows["sample"].append((self.samples, *begin, *at, *end, *cells(row)))
            self.rows["score"] += scores(row, self.samples, process, step, log.time)

    def _add_change(self, log: Log, process: int, row: RecordedSample) -> None:
        trace, rollout, sample = map(row.get, (names.RL_ROLLOUT_TRACE_ID, names.RL_ROLLOUT_ID, names.RL_SAMPLE_ID))
        if trace is None and rollout is None and sample is None:
            return
        name = (None, None, sample) if trace is None and rollout is None else (trace, rollout, None)
        self.changes += 1
        body = json.dumps([row.columns, row.named, row.weights])
        estimator = log.attributes.get(names.RL_ADVANTAGE_ESTIMATOR)
        self.rows["change"].append((process, log.time, *name, None, 0, estimator, body))

    # -- points ----------------------------------------------------------------------------------------------------

    def _add_point(self, point: Point, process: int) -> None:
        if point.kind == "gauge" or (point.kind == "sum" and not point.monotonic):
            key = point.attributes.get(names.RL_TRAINER_METRIC_KEY)
            labels = ", ".join(f"{name}={value}" for name, value in sorted(point.attributes.items()))
            self.rows["point"].append(
                (process, point.metric, point.scope, labels if key is None else str(key), point.time, point.value,
                 _json(point.attributes))
            )  # fmt: skip


def _called(span: Span) -> tuple[str, str, str] | None:
    """Return kind, name and place of what the span called; None for what is no call."""
    get = span.attributes.get
    if (service := get(names.RL_SERVICE)) is not None:
        return SERVICE, str(service), ""
    operation = get(names.GEN_AI_OPERATION_NAME)
    if operation is None:
        return None
    if operation == Operation.EXECUTE_TOOL:
        # The server's side of a call (of MCP, say): the caller's side is the one that counts.
        kind = SERVED_TOOL if span.is_server else TOOL
        return kind, str(get(names.GEN_AI_TOOL_NAME) or span.name), _server(span)
    if operation in MODEL_OPERATIONS:
        return MODEL, model_name(operation, get(names.GEN_AI_REQUEST_MODEL)), _server(span)
    kind, key = _RUNS.get(operation, ("", ""))
    return (kind, str(get(key) or span.name), "") if kind else None


def model_name(operation: object, model: object) -> str:
    """Return the name of a callee of kind :data:`MODEL`."""
    return f"{operation} {model or 'unknown model'}"


def _server(span: Span) -> str:
    address, port = span.attributes.get(names.SERVER_ADDRESS), span.attributes.get(names.SERVER_PORT)
    return "" if address is None else f"{address}:{port}" if port is not None else str(address)


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and value > 0 else 0.0


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _count(value: Any) -> int:
    return max(int_or_none(value) or 0, 0)


def _json_or_none(value: Any) -> str | None:
    return None if value is None else _json(value)


def _json(value: Any) -> str:
    """Return ASCII, which holds halves of surrogate pairs too."""
    return json.dumps(value, default=str, separators=(",", ":"))
