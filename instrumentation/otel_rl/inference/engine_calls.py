"""Calls of an inference engine in the process of the program: one span per call, histograms per request.

The counterpart of :mod:`otel_rl.inference.calls` where no client and no server stand between program and model. Its
metrics of calls and tokens have other names than those of clients: a program may be both, and count nothing twice.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import trace as trace_api
from opentelemetry.context import get_current
from opentelemetry.trace import INVALID_SPAN, SpanKind

from otel_rl.core.guard import guard
from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.recorder import flight
from otel_rl.inference import call_roles, engine_times, ownership
from otel_rl.inference.engine_requests import EngineRequests, was_aborted
from otel_rl.inference.pending_measurements import PendingMeasurements
from otel_rl.inference.requests import model_name
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import GenAiTokenTypeValues, RlCallKindValues
from otel_rl.telemetry import deferral, judging, lifecycle, open_trajectory, progress, side_calls
from otel_rl.telemetry.attribute_values import clean, error_type
from otel_rl.telemetry.cardinality_budgets import within_budget
from otel_rl.telemetry.context import attach, detach
from otel_rl.tools import open_tools

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_rl.telemetry.open_trajectory import OpenTrajectory
    from otel_rl.telemetry.scope import Scope

_FINISH = guard("inference.engine_call")
#: Metrics of servers, which clients must not record.
_OF_SERVERS = {
    attributes.RL_ENGINE_TIME_TO_FIRST_TOKEN: metrics.GEN_AI_SERVER_TIME_TO_FIRST_TOKEN,
    attributes.RL_ENGINE_REQUEST_TIME: metrics.GEN_AI_SERVER_REQUEST_DURATION,
}


class EngineCall:
    """One call of an engine, with one request or a batch, from its start to :meth:`finish`.

    ``values`` are attributes of its span. What its requests took goes into ``requests``. Without ``has_span`` the call
    is measured only: another instrumentor, or the engine itself, has a span for it.
    """

    event_loop = 0
    #: See :class:`otel_rl.telemetry.progress.OpenCall`.
    begin: progress.CallBegin | None = None
    last_inside = 0.0
    #: As in :class:`otel_rl.telemetry.model_turns.ModelTurn`.
    answer_began: float | None = None
    turn: int | None = None

    def __init__(
        self,
        scope: Scope,
        operation: str,
        provider: str,
        model: str,
        values: Mapping[str, Any] | None = None,
        *,
        has_span: bool = True,
    ) -> None:
        self._scope = scope
        self._forks = lifecycle.forks
        self._ended = False
        self._token: Token[Context] | None = None
        self.requests = EngineRequests()
        self._labels = {attributes.GEN_AI_OPERATION_NAME: operation, attributes.GEN_AI_PROVIDER_NAME: provider}
        name = model_name(model)
        if name:
            self._labels[attributes.GEN_AI_REQUEST_MODEL] = within_budget(attributes.GEN_AI_REQUEST_MODEL, name)
        given = values or {}
        #: Seconds since the engine got its weights. Those that it began with have no version to compare.
        self.policy_age: float | None = given.get(attributes.RL_POLICY_AGE)
        self._version = None if self.policy_age is None else given.get(attributes.RL_POLICY_VERSION)
        span_values = clean({**self._labels, **given})
        if name:
            span_values[attributes.GEN_AI_REQUEST_MODEL] = name
        context = get_current()
        title = f"{operation} {name}".rstrip()
        self._began = deferral.now()
        self.started = self._began.counter
        self.span: Span = INVALID_SPAN
        self.context = context
        self._trajectory = open_trajectory.current(context)
        self._parent_call = ownership.parent_call(context, self._trajectory)
        self._role = call_roles.role_of(context, self._trajectory, model, self._parent_call)
        is_outside = self._trajectory is None and self._role is not None
        self._judging = judging.outside(context) if is_outside else None
        if self._parent_call is not None:
            self._parent_call.child_began()
        if has_span:
            self.span = scope.begin_span(title, context, SpanKind.INTERNAL, span_values)
            self.context = trace_api.set_span_in_context(self.span, context)
        self._title = title
        self._flight = flight.begin(layout.MODEL_CALL, title)
        progress.began_in_event_loop(progress.MODEL_CALLS, self)
        progress.call_began(self, open_tools.here(context))

    @property
    def has_ended(self) -> bool:
        """True when its end is recorded."""
        return self._ended

    def state(self) -> progress.CallState | None:
        """See :class:`otel_rl.telemetry.progress.OpenCall`."""
        if self._ended:
            return None
        parent = progress.parent_of(self.span)
        return progress.CallState(
            RlCallKindValues.ENGINE, self._title, self._labels, self.span, self._trajectory, parent
        )

    def enter(self) -> None:
        """Make its span current until it ends; never while the program holds a generator."""
        self._token = attach(self.context)

    def finish(
        self,
        error: BaseException | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """End the call; ``values`` are further attributes of its span. Later ends, and a forked child's, do nothing."""
        token, self._token = self._token, None
        detach(token)
        if self._ended or self._forks != lifecycle.forks:
            return
        self._ended = True
        with _FINISH:
            ended = deferral.now()
            progress.call_ended()
            progress.call_is_over(self, RlCallKindValues.ENGINE, self._title, failed=error is not None)
            flight.end(self._flight, error is not None)
            kind = None if error is None else error_type(error)
            tokens = self.requests.input_tokens, self.requests.output_tokens
            if self._parent_call is not None:
                self._parent_call.child_ended(*tokens)
            if self._trajectory is not None and not self._trajectory.has_ended:
                reasons = self.requests.reasons
                failed = error is not None or was_aborted(reasons)
                if self._role in side_calls.COLUMNS:
                    self._trajectory.side_call_ended(self._role, tokens, failed=failed)
                else:
                    if not failed:
                        self._trajectory.turns.give(self)
                    self._trajectory.model_call_ended(tokens, reasons, failed=failed, turn=self.turn)
                    self._add_version(self._trajectory)
            elif self._judging is not None:
                failed = error is not None or was_aborted(self.requests.reasons)
                self._judging.call_ended(tokens, ended.counter - self.started, failed=failed)
            if self.span.is_recording():
                of_trajectory = {attributes.RL_ROLLOUT_TURN: self.turn, attributes.RL_INFERENCE_ROLE: self._role}
                totals = {**self.requests.attributes(), **of_trajectory, **(values or {})}
                self.span.set_attributes(clean(totals))
            self._scope.end_span(self.span, kind, ended.wall)
            _pending.add(_Measured(self._scope, self._labels, ended.counter - self._began.counter, kind, self))

    def _add_version(self, trajectory: OpenTrajectory) -> None:
        if self._version is not None:
            from otel_rl.training import engine_versions  # noqa: PLC0415 - few engines get other weights

            engine = engine_versions.Engine("", None, self._labels.get(attributes.GEN_AI_REQUEST_MODEL, ""))
            engine_versions.answered(trajectory, engine, self._version)


class _Measured(NamedTuple):
    scope: Scope
    labels: dict[str, str]
    duration: float
    error_type: str | None
    call: EngineCall


def _record(group: list[_Measured]) -> None:
    """Record calls with the same attributes; the slowest has the exemplar."""
    slowest = max(group, key=lambda measured: measured.duration)
    scope, labels, context = slowest.scope, slowest.labels, slowest.call.context
    durations = [slowest.duration, *(measured.duration for measured in group if measured is not slowest)]
    failed = {**labels, attributes.ERROR_TYPE: slowest.error_type} if slowest.error_type else labels
    scope.record_all(metrics.RL_ENGINE_CALL_DURATION, durations, failed, context)
    requests = [measured.call.requests for measured in group]
    times: dict[str, list[float]] = {}
    for request in requests:
        for name, values in request.times.items():
            times.setdefault(name, []).extend(values)
    engine_times.record(scope, times, labels, context)
    for name, histogram in _OF_SERVERS.items():
        if name in times:
            scope.record_all(histogram, times[name], labels, context)
    per_token = [1 / speed for speed in times.get(attributes.RL_ENGINE_DECODE_THROUGHPUT, ()) if speed]
    if per_token:
        scope.record_all(metrics.GEN_AI_SERVER_TIME_PER_OUTPUT_TOKEN, per_token, labels, context)
    ages = [measured.call.policy_age for measured in group if measured.call.policy_age is not None]
    if ages:
        scope.record_all(metrics.RL_ENGINE_POLICY_AGE, ages, labels, context)
    _count_tokens(scope, labels, requests, context)


def _count_tokens(scope: Scope, labels: dict[str, str], requests: list[EngineRequests], context: Context) -> None:
    for kind, tokens in (
        (GenAiTokenTypeValues.INPUT, sum(request.input_tokens for request in requests)),
        (GenAiTokenTypeValues.OUTPUT, sum(request.output_tokens for request in requests)),
    ):
        if tokens:
            scope.record(metrics.RL_ENGINE_TOKENS, tokens, {**labels, attributes.GEN_AI_TOKEN_TYPE: kind}, context)
    cached = sum(request.cached_tokens for request in requests)
    if cached:
        scope.record(metrics.RL_ENGINE_CACHED_TOKENS, cached, labels, context)
    preemptions = sum(request.preemptions for request in requests)
    if preemptions:
        scope.record(metrics.RL_ENGINE_PREEMPTED, preemptions, labels, context)
    for reason, number in Counter(reason for request in requests for reason in request.reasons).items():
        scope.record(
            metrics.RL_ENGINE_FINISHED, number, {**labels, attributes.RL_ENGINE_FINISH_REASON: reason}, context
        )


_pending: PendingMeasurements[_Measured] = PendingMeasurements("inference.engine_metrics", _record, posted=True)
