"""Runs of agents and workflows: a span and a duration each, and a row if nothing else called it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import trace as trace_api
from opentelemetry.context import get_current

from otel_rl.agents import trajectories
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import GenAiOperationNameValues, RlRolloutStatusValues
from otel_rl.telemetry import conversations, open_trajectory
from otel_rl.telemetry.attribute_values import error_type, text
from otel_rl.telemetry.context import attach, detach
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span

    from otel_rl.agents.trajectories import AgentTrajectory
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
    operation = GenAiOperationNameValues.INVOKE_AGENT
    labels = {attributes.GEN_AI_OPERATION_NAME: operation, attributes.GEN_AI_AGENT_NAME: name or None}
    values = {**labels, attributes.GEN_AI_CONVERSATION_ID: conversation}
    duration = metrics.GEN_AI_INVOKE_AGENT_DURATION, labels
    return Description(spans.GEN_AI_INVOKE_AGENT, f"{operation} {name}".strip(), values, duration)


def workflow(name: str, conversation: str | None = None) -> Description:
    """Describe a run of a workflow: a graph, a chain, a crew."""
    operation = GenAiOperationNameValues.INVOKE_WORKFLOW
    labels = {attributes.GEN_AI_WORKFLOW_NAME: name or None}
    shared = {attributes.GEN_AI_OPERATION_NAME: operation, attributes.GEN_AI_CONVERSATION_ID: conversation}
    duration = metrics.GEN_AI_INVOKE_WORKFLOW_DURATION, labels
    return Description(spans.GEN_AI_INVOKE_WORKFLOW, f"{operation} {name}".strip(), {**labels, **shared}, duration)


class RecordedRun:
    """Span, duration and trajectory of a run. It makes nothing current.

    Args:
        scope: of the instrumentor.
        description: of :func:`agent` or :func:`workflow`.
        trajectory: what the run is if nothing else called it.
        within: the context that it starts in, by default the current one.
        has_span: False if somebody else has a span for it: then neither span nor duration is recorded here.

    Attributes:
        span: our span of the run; None if somebody else has one.
        context: the context inside of the run.
    """

    def __init__(
        self,
        scope: Scope,
        description: Description,
        trajectory: AgentTrajectory | None,
        within: Context | None = None,
        *,
        has_span: bool = True,
    ) -> None:
        self._scope = scope
        self._trajectory = trajectory
        self.span: Span | None = None
        definition, name, values, self._duration = description
        context = get_current() if within is None else within
        if has_span:
            links: list[Link] = []
            if trajectory is not None:
                context, links = trajectory.place(context)
            self.span = scope.start_span(definition, name, attributes=values, context=context, links=links)
            context = trace_api.set_span_in_context(self.span, context)
            if trajectory is not None:
                context = trajectory.context_below(self.span, context)
        conversation = values.get(attributes.GEN_AI_CONVERSATION_ID)
        if conversation is not None:
            context = conversations.context_with(text(conversation, MAXIMUM_LENGTH), context)
        if self._duration is not None:
            context = open_trajectory.context_of_agent(context)
        self.context: Context = context
        self._started = time.perf_counter()

    def finish(
        self, error: BaseException | str | None = None, at: Moment | None = None, *, left_open: bool = False
    ) -> None:
        """End it; an exception, or an ``error.type`` as text, marks it as failed. ``at``: when, or now.

        One that is ``left_open`` has not ended by itself: its trajectory was cancelled.
        """
        seconds = (at.counter if at else time.perf_counter()) - self._started
        ended = None
        if self._trajectory is not None:
            ended = self._trajectory.end(seconds, RlRolloutStatusValues.CANCELLED if left_open else error)
        if self.span is not None:
            if self._duration is not None:
                metric, labels = self._duration
                kind = error_type(error) if isinstance(error, BaseException) else error
                self._scope.record(metric, seconds, {**labels, attributes.ERROR_TYPE: kind}, self.context)
            self._scope.end_span(self.span, error, at.wall if at else None)
        if self._trajectory is not None:
            self._trajectory.let_go(ended)


class AgentRun(RecordedRun):
    """A run of an agent or workflow; current from its construction to :meth:`leave`.

    It is an operation as :mod:`otel_rl.api.operations` has them, so that generators can run inside of it piece by
    piece: ``instrumentors.followed_calls`` puts one around each call of a library's function.

    Args:
        scope: of the instrumentor.
        description: of :func:`agent` or :func:`workflow`.
        has_span: False if the library has a span for the run itself: then the first one that it starts inside stands
            for the trajectory.
    """

    def __init__(self, scope: Scope, description: Description, *, has_span: bool = True) -> None:
        self._failure: str | None = None
        trajectory, within = trajectories.of_run(scope, description.values), None
        if trajectory is not None:
            trajectory.begin()
            within = None if has_span else trajectory.context_awaiting_span(get_current())
        super().__init__(scope, description, trajectory, within, has_span=has_span)
        self._token: Token[Context] | None = attach(self.context)

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
        """Leave and end it; see :meth:`finish`."""
        self.leave()
        self.finish(self._failure if error is None else error, at)
