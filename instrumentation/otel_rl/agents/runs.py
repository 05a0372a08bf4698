"""Runs of agents and workflows: a span and a duration each, and a row if nothing else called it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import trace as trace_api
from opentelemetry.context import get_current

from otel_rl.agents import trajectories
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import GenAiOperationNameValues
from otel_rl.telemetry import conversations
from otel_rl.telemetry.attribute_values import error_type, text
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span

    from otel_rl.semconv.definitions import MetricDefinition, SpanDefinition
    from otel_rl.telemetry.deferral import Moment
    from otel_rl.telemetry.open_trajectory import OpenTrajectory
    from otel_rl.telemetry.scope import Scope


class Description(NamedTuple):
    """What is recorded of a run.

    Attributes:
        definition: of its span.
        name: of its span.
        values: attributes of its span.
        duration: the metric of its duration, and the attributes of that.
    """

    definition: SpanDefinition
    name: str
    values: dict[str, Any]
    duration: tuple[MetricDefinition, dict[str, Any]] | None


def agent(name: str, conversation: str | None = None) -> Description:
    """Describe a run of an agent."""
    labels = {
        attributes.GEN_AI_OPERATION_NAME: GenAiOperationNameValues.INVOKE_AGENT,
        attributes.GEN_AI_AGENT_NAME: name or None,
    }
    duration = metrics.GEN_AI_INVOKE_AGENT_DURATION, labels
    return _described(spans.GEN_AI_INVOKE_AGENT, name, labels, conversation, duration)


def workflow(name: str, conversation: str | None = None) -> Description:
    """Describe a run of a workflow: a graph, a chain, a crew."""
    labels = {attributes.GEN_AI_WORKFLOW_NAME: name or None}
    values = {attributes.GEN_AI_OPERATION_NAME: GenAiOperationNameValues.INVOKE_WORKFLOW, **labels}
    duration = metrics.GEN_AI_INVOKE_WORKFLOW_DURATION, labels
    return _described(spans.GEN_AI_INVOKE_WORKFLOW, name, values, conversation, duration)


def _described(
    definition: SpanDefinition,
    name: str,
    values: dict[str, Any],
    conversation: str | None,
    duration: tuple[MetricDefinition, dict[str, Any]],
) -> Description:
    operation = values[attributes.GEN_AI_OPERATION_NAME]
    shown = {**values, attributes.GEN_AI_CONVERSATION_ID: conversation}
    return Description(definition, f"{operation} {name}".strip(), shown, duration)


class AgentRun:
    """A run of an agent or workflow; current from its construction to :meth:`leave`.

    It is an operation as :mod:`otel_rl.api.operations` has them, so that generators can run inside of it piece by
    piece: ``instrumentors.followed_calls`` puts one around each call of a library's function.

    Args:
        scope: of the instrumentor.
        description: of :func:`agent` or :func:`workflow`.
        values: further attributes of the span.
        has_span: False if the library has a span for the run itself: then the first one that it starts inside stands
            for the trajectory, and neither span nor duration is recorded here.
    """

    def __init__(
        self, scope: Scope, description: Description, values: dict[str, Any] | None = None, *, has_span: bool = True
    ) -> None:
        self._scope = scope
        self._span: Span | None = None
        self._failure: str | None = None
        definition, name, shown, self._duration = description
        conversation = shown.get(attributes.GEN_AI_CONVERSATION_ID)
        self._trajectory = trajectories.of_run(scope, shown)
        if self._trajectory is not None:
            self._trajectory.begin()
        context = get_current()
        if has_span:
            links: list[Link] = []
            if self._trajectory is not None:
                context, links = self._trajectory.place(context)
            given = {**shown, **(values or {})}
            self._span = scope.start_span(definition, name, attributes=given, context=context, links=links)
            context = trace_api.set_span_in_context(self._span, context)
            if self._trajectory is not None:
                context = self._trajectory.context_below(self._span, context)
        elif self._trajectory is not None:
            context = self._trajectory.context_awaiting_span(context)
        if conversation is not None:
            context = conversations.context_with(text(conversation, MAXIMUM_LENGTH), context)
        self._context = context
        self._started = time.perf_counter()
        self._token: Token[Context] | None = attach(context)

    @property
    def span(self) -> Span | None:
        """Our span of the run; None if the library has one."""
        return self._span

    @property
    def context(self) -> Context:
        """The context inside of the run."""
        return self._context

    @property
    def trajectory(self) -> OpenTrajectory | None:
        """What calls and rewards of the run add to; None if the run is part of another trajectory."""
        return None if self._trajectory is None else self._trajectory.counters

    def name_row(self, name: object) -> None:
        """Give its row, if it has one, another name than its span has."""
        if self._trajectory is not None and name:
            self._trajectory.ids[attributes.GEN_AI_AGENT_NAME] = text(str(name), MAXIMUM_LENGTH)

    def fail(self, kind: str) -> None:
        """Mark the run as failed though it does not raise; ``kind`` becomes ``error.type``."""
        self._failure = kind

    def leave(self) -> None:
        """Make current again what was current before; a second call does nothing."""
        token, self._token = self._token, None
        detach(token)

    def end(self, error: BaseException | str | None = None, at: Moment | None = None) -> None:
        """Leave and end it; an exception, or an ``error.type`` as text, marks it as failed. ``at``: when, or now."""
        self.leave()
        error = self._failure if error is None else error
        seconds = (at.counter if at else time.perf_counter()) - self._started
        ended = None if self._trajectory is None else self._trajectory.end(seconds, error)
        if self._span is not None:
            if self._duration is not None:
                metric, labels = self._duration
                self._scope.record(metric, seconds, _with_error(labels, error), self._context)
            self._scope.end_span(self._span, error, at.wall if at else None)
        if self._trajectory is not None:
            self._trajectory.let_go(ended)


def _with_error(labels: dict[str, Any], error: BaseException | str | None) -> dict[str, Any]:
    if error is None:
        return labels
    return {**labels, attributes.ERROR_TYPE: error_type(error) if isinstance(error, BaseException) else error}
