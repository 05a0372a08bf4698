"""A trajectory: the root span of a trace of its own, its baggage, and what becomes of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import get_current
from opentelemetry.trace import INVALID_SPAN, INVALID_SPAN_CONTEXT, Link

from otel_rl.api import continuation, sample_ids
from otel_rl.api.call_content import Result, captured
from otel_rl.core.guard import guard
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import RlSamplingReasonValues, RlTrajectoriesSourceValues
from otel_rl.telemetry import drops, ids, lifecycle, open_spans, open_trajectory, run_span, sampling
from otel_rl.telemetry.attribute_values import error_type, number
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.correlation import baggage_context, correlation_attributes
from otel_rl.telemetry.scope import Scope
from otel_rl.training import caller_steps, rollout_spans, steps, trajectories, trajectory_rows
from otel_rl.training.trajectory_shares import TrajectoryName

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context

    from otel_rl.telemetry.deferral import Moment

_scope = Scope("api")
#: Integers of OTLP lie below this one.
INTEGER_LIMIT = 1 << 63
#: Digits of an iteration that is text.
_DIGITS = 18
#: Baggage that a rollout does not take from the rollout or step around it.
OF_ONE_ROLLOUT = (
    attributes.RL_ROLLOUT_ID,
    attributes.RL_SAMPLE_ID,
    attributes.RL_GROUP_ID,
    attributes.RL_ROLLOUT_ATTEMPT,
    attributes.RL_SAMPLING_PRIORITY,
    attributes.RL_SAMPLING_BEYOND_LIMIT,
)


def _attempt(value: object) -> int | None:
    """Return a number from 1, also one that is text; anything else is dropped and counted."""
    attempt = _number(value)
    if type(attempt) is int and 0 < attempt < INTEGER_LIMIT:
        return attempt
    if value is not None:
        drops.count("traces", "unsupported_type")
    return None


def _number(value: object) -> Any:
    if isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS:
        return int(value)
    return None if value is None else number(value)


def _iteration(value: object) -> int | None:
    """Return a whole number, also one that is text; anything else is dropped and counted."""
    iteration = _number(value)
    if iteration is not None and iteration == iteration // 1 and abs(iteration) < INTEGER_LIMIT:
        return int(iteration)
    if value is not None:
        drops.count("traces", "unsupported_type")
    return None


class Rollout:
    """Root span of a trajectory and its baggage."""

    def __init__(
        self,
        rollout_id: object,
        sample_id: object,
        group_id: object,
        policy_version: object,
        iteration: object,
        attempt: object,
        keep: bool,
        arguments: object,
        is_named: bool = False,
        environment: str | None = None,
    ) -> None:
        if is_named:
            rollout_id, sample_id, group_id, attempt = sample_ids.of_arguments(arguments)
        # In the worker of a pool, that of the process which submitted the call.
        step = steps.where().step or caller_steps.current()
        iteration = _iteration(iteration)
        if iteration is None and step is not None:
            iteration = step.iteration
        reason = sampling.reason_to_keep_rollout(forced=keep, iteration=iteration)
        entries: dict[str, object] = {
            attributes.RL_RUN_ID: process_identity.current().id,
            attributes.RL_ROLLOUT_ID: rollout_id if rollout_id is not None else ids.random_name(),
            attributes.RL_SAMPLE_ID: sample_id,
            attributes.RL_GROUP_ID: group_id,
            attributes.RL_ROLLOUT_ATTEMPT: _attempt(attempt),
            attributes.RL_POLICY_VERSION: policy_version,
            attributes.RL_LOOP_ITERATION: iteration,
            attributes.RL_SAMPLING_PRIORITY: sampling.KEEP if reason else None,
        }
        of_step = step.span_context if step is not None else INVALID_SPAN_CONTEXT
        link = Link(of_step) if of_step.is_valid else run_span.link()
        # A trace of its own in the program's context: its baggage, its values and its suppression hold inside.
        context = trace_api.set_span_in_context(INVALID_SPAN, get_current())
        for key in OF_ONE_ROLLOUT:
            context = baggage.remove_baggage(key, context)
        # The ids and the wish to be kept reach everything below, in other processes too, through the baggage.
        context = baggage_context(entries, context)
        values = {
            **correlation_attributes(context),
            attributes.RL_SAMPLING_REASON: reason,
            attributes.RL_ENVIRONMENT_NAME: environment,
        }
        self._ids = values
        given = {**values, attributes.RL_ROLLOUT_INPUT: captured(arguments)}
        self._span = _scope.start_span(spans.RL_ROLLOUT, attributes=given, context=context, links=[link])
        self._held = rollout_spans.began(self._span, iteration)
        if self._held is not None:
            context = rollout_spans.marked(self._span, context)
        self._result = Result(self._span, attributes.RL_ROLLOUT_OUTPUT)
        self._is_named = is_named
        self.produced = self._result.add
        #: What calls and rewards add to, wherever the rollout goes on.
        self._open = open_trajectory.OpenTrajectory()
        self._context = open_trajectory.root_context(self._open, trace_api.set_span_in_context(self._span, context))
        self._name(sample_id if is_named else None)
        self._started = time.perf_counter()
        trajectories.began(_scope, RlTrajectoriesSourceValues.ROLLOUT)
        continuation.install()
        # Last: from here on a signal handler finds the rollout in its context.
        self._token: Token[Context] | None = attach(self._context)

    def _name(self, sample: object) -> None:
        """Let what is said of it from elsewhere find it; ``sample`` is an id that scores of a named function have."""
        identifier = self._ids.get(attributes.RL_ROLLOUT_ID)
        if isinstance(identifier, str):
            own = self._span.get_span_context()
            self._open.names = identifier, trace_api.format_trace_id(own.trace_id) if own.is_valid else None
            open_trajectory.known_as(identifier, self._open)
            if isinstance(sample, str):
                sample_ids.began(sample, self.name)
            if self._is_named and own.is_valid:
                sample_ids.remember_root(identifier, own)

    def result(self, value: object) -> None:
        """Take what the function has returned."""
        self._result.take(value)
        if self._is_named:
            sample_ids.returned(value, self.name)

    @property
    def name(self) -> TrajectoryName:
        """What its row is found by."""
        rollout, trace = self._open.names
        return TrajectoryName(trace, rollout)

    @property
    def trajectory(self) -> open_trajectory.OpenTrajectory:
        """What calls and rewards add to."""
        return self._open

    def leave(self) -> None:
        """Make current again what was current before; a second call does nothing."""
        token, self._token = self._token, None
        detach(token)

    def end(self, error: BaseException | str | None, at: Moment | None) -> None:
        """End the span; what became of the trajectory is its row."""
        self.leave()
        kind = error_type(error) if isinstance(error, BaseException) else error
        elapsed = (at.counter if at else time.perf_counter()) - self._started
        _scope.record(metrics.RL_ROLLOUT_DURATION, elapsed, {attributes.ERROR_TYPE: kind}, self._context)
        # With a guard of its own: the span is still to be ended.
        ended = None
        with guard("producer.trajectory"):
            ended = trajectory_rows.Ended(self._open, self._ids, self._span, elapsed, error)
            totals = trajectory_rows.add(_scope, RlTrajectoriesSourceValues.ROLLOUT, ended)
            status = trajectory_rows.status_of(error, self._open.discard_reason)
            open_spans.add(self._span, {**totals, attributes.RL_ROLLOUT_STATUS: status})
        self._result.finish()
        sampling.keep_if_slow(self._span, elapsed, spans.RL_ROLLOUT.type)
        _scope.end_span(self._span, kind, at.wall if at else None)
        if self._held is not None:
            with guard("producer.rollout_spans"):
                forced = self._ids.get(attributes.RL_SAMPLING_REASON) == RlSamplingReasonValues.FORCED
                rollout_spans.ended(self._held, ended, is_forced=forced)
        if lifecycle.may_be_killed:
            # It may go on beside the call that has begun it.
            lifecycle.deliver_news()
