"""What the producer API in ``otel_rl/__init__.py`` does once telemetry is on."""

from __future__ import annotations

import contextvars
import math
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from opentelemetry import trace as trace_api
from opentelemetry.context import Context, create_key, get_current, get_value, set_value
from opentelemetry.trace import Link

from otel_rl.internal_errors import guard
from otel_rl.semconv import attributes, events, metrics, spans
from otel_rl.semconv.definitions import EventDefinition
from otel_rl.telemetry import drops, ids, run_span, sampling
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.telemetry.cardinality_budgets import within_budget
from otel_rl.telemetry.content_capture import capture_content
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.correlation import baggage_context, correlation_attributes
from otel_rl.telemetry.scope import Scope
from otel_rl.tools.calls import ToolCall
from otel_rl.training import steps
from otel_rl.training.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextvars import Token
    from types import TracebackType

    from typing_extensions import Self

_scope = Scope("api")
#: Where the context holds the rollout that is open in it, so that rewards find it.
_ROLLOUT = create_key("otel_rl.rollout")
_SPANS_BY_PHASE = {
    definition.type.removeprefix("rl."): definition
    for definition in vars(spans).values()
    if getattr(definition, "type", "").startswith("rl.")
}


class _Operation(Protocol):
    """Something that begins when it is made."""

    def close(self, error: BaseException | str | None) -> None:
        """End it; an exception, or an ``error.type`` as text, marks it as failed."""


class _Rollout:
    """Root span of a trajectory and its baggage."""

    def __init__(
        self,
        rollout_id: object,
        sample_id: object,
        group_id: object,
        policy_version: object,
        iteration: int | None,
        keep: bool,
    ) -> None:
        step = steps.current()
        if iteration is None and step is not None:
            iteration = step.iteration
        reason = sampling.reason_to_keep_rollout(forced=keep, iteration=iteration)
        entries: dict[str, object] = {
            attributes.RL_ROLLOUT_ID: rollout_id if rollout_id is not None else _random_id(),
            attributes.RL_SAMPLE_ID: sample_id,
            attributes.RL_GROUP_ID: group_id,
            attributes.RL_POLICY_VERSION: policy_version,
            attributes.RL_LOOP_ITERATION: iteration,
            attributes.RL_SAMPLING_PRIORITY: sampling.KEEP if reason else None,
        }
        link = Link(step.span_context) if step is not None else run_span.link()
        # The ids and the wish to be kept reach everything below, in other processes too, through the baggage.
        context = baggage_context(entries, Context())
        values = {**correlation_attributes(context), attributes.RL_SAMPLING_REASON: reason}
        self._span = _scope.start_span(spans.RL_ROLLOUT, attributes=values, context=context, links=[link])
        self._context = set_value(_ROLLOUT, self, trace_api.set_span_in_context(self._span, context))
        self._token: Token[Context] = attach(self._context)
        self._started = time.perf_counter()
        self._reward: float | None = None

    def add_reward(self, value: float) -> None:
        if math.isfinite(value):
            self._reward = (self._reward or 0.0) + value

    def close(self, error: BaseException | str | None) -> None:
        kind = error_type(error) if isinstance(error, BaseException) else error
        elapsed = time.perf_counter() - self._started
        _scope.record(metrics.RL_ROLLOUT_DURATION, elapsed, {attributes.ERROR_TYPE: kind}, self._context)
        detach(self._token)
        if self._reward is not None and self._span.is_recording():
            self._span.set_attribute(attributes.RL_ROLLOUT_REWARD, self._reward)
        sampling.keep_if_slow(self._span, elapsed, spans.RL_ROLLOUT.type)
        _scope.end_span(self._span, kind)


class _Step:
    """A step of the user's own loop; silent where an instrumented trainer has one open already."""

    def __init__(self, iteration: int) -> None:
        self._owned = steps.current() is None
        if self._owned:
            steps.begin(iteration, _scope)

    def close(self, error: BaseException | str | None) -> None:
        if self._owned:
            steps.finish(error)


class _Phase:
    def __init__(self, name: str) -> None:
        self._phase = Phase(_SPANS_BY_PHASE[name], _scope).start()

    def close(self, error: BaseException | str | None) -> None:
        self._phase.end(error)


class _Tool:
    def __init__(self, name: str, call_id: str | None, arguments: Any) -> None:
        self._call = ToolCall(_scope, name, call_id, arguments=arguments).start()

    def close(self, error: BaseException | str | None) -> None:
        if isinstance(error, str):
            self._call.fail(error)
            error = None
        self._call.end(error)


_KINDS: dict[str, type[_Rollout | _Step | _Phase | _Tool]] = {
    "rollout": _Rollout,
    "step": _Step,
    "phase": _Phase,
    "tool": _Tool,
}


class Opened:
    """An operation that has begun, and whether it failed; keeps our errors inside at its end."""

    def __init__(self, operation: _Operation) -> None:
        self._operation = operation
        self._failure: str | None = None

    def fail(self, kind: str) -> None:
        """Mark it as failed without an exception."""
        self._failure = kind

    def close(self, error: BaseException | None) -> None:
        """End it; an exception wins over a failure that was only told."""
        with guard("producer.close"):
            self._operation.close(error if error is not None else self._failure)


def _random_id() -> str:
    return str(UUID(int=ids.IdGenerator().generate_trace_id()))


def open_operation(kind: str, arguments: Mapping[str, Any]) -> Opened | None:
    """Begin a rollout, step, phase or tool call; None when that failed inside."""
    with guard(f"producer.{kind}"):
        return Opened(_KINDS[kind](**arguments))
    return None


class Detached:
    """An operation that is not current in the caller's context: :meth:`current` makes it so for a while."""

    def __init__(self, kind: str, arguments: Mapping[str, Any]) -> None:
        self._variables = contextvars.copy_context()
        self._opened = self._variables.run(open_operation, kind, arguments)
        self._context = self._variables.run(get_current)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Inside, the operation is the current one."""
        token = attach(self._context)
        try:
            yield
        finally:
            detach(token)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._opened is not None:
            ended_early = isinstance(error, GeneratorExit)
            self._variables.run(self._opened.close, None if ended_early else error)


def reward(name: str, value: float, label: str | None, explanation: str | None) -> None:
    """See :func:`otel_rl.reward`."""
    with guard("producer.reward"):
        rollout = get_value(_ROLLOUT)
        if isinstance(rollout, _Rollout):
            rollout.add_reward(float(value))
        metric_name = within_budget(attributes.RL_REWARD_NAME, name)
        _scope.record(metrics.RL_REWARD_SCORE, float(value), {attributes.RL_REWARD_NAME: metric_name})
        _scope.event(
            events.GEN_AI_EVALUATION_RESULT,
            attributes={
                attributes.GEN_AI_EVALUATION_NAME: name,
                attributes.GEN_AI_EVALUATION_SCORE_VALUE: float(value),
                attributes.GEN_AI_EVALUATION_SCORE_LABEL: label,
                attributes.GEN_AI_EVALUATION_EXPLANATION: explanation if capture_content() else None,
            },
        )


def metric(key: str, value: float) -> None:
    """See :func:`otel_rl.metric`."""
    with guard("producer.metric"):
        if within_budget(attributes.RL_TRAINER_METRIC_KEY, key) == key:
            _scope.record(metrics.RL_TRAINER_METRIC, float(value), {attributes.RL_TRAINER_METRIC_KEY: key})
        else:
            # A gauge of many keys at once would say nothing.
            drops.count("metrics", "cardinality")


def event(name: str, body: Any, values: Mapping[str, Any] | None) -> None:
    """See :func:`otel_rl.event`."""
    with guard("producer.event"):
        _scope.event(EventDefinition(name, "", ()), body=body, attributes=values)
