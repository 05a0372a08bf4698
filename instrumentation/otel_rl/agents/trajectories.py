"""The run of an agent that nothing else called is a trajectory: its counters, its row, and whether its spans leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from opentelemetry.trace import INVALID_SPAN, Link, get_current_span, set_span_in_context

from otel_rl.core.guard import guard
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlTrajectoriesSourceValues
from otel_rl.telemetry import lifecycle, open_trajectory, sampling
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.correlation import correlation_attributes
from otel_rl.telemetry.ids import random_name
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH
from otel_rl.training import rollout_spans, steps, trajectories, trajectory_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext

    from otel_rl.telemetry.held_traces import HeldTrace
    from otel_rl.telemetry.open_trajectory import OpenTrajectory
    from otel_rl.telemetry.scope import Scope

_SOURCE = RlTrajectoriesSourceValues.AGENT


@dataclass(slots=True, eq=False, repr=False)
class AgentTrajectory:
    """What a run is part of: its counters, and the attributes that name it; ``has_begun`` once it is one for sure."""

    scope: Scope
    counters: OpenTrajectory
    ids: dict[str, Any]
    #: The step that was open when it began.
    of_step: SpanContext | None
    has_begun: bool = False
    #: The span that stands for it, of ours or of the library.
    span: Span | None = None
    #: Its spans, if they are held until it ends.
    held: HeldTrace | None = None

    def begin(self) -> None:
        """Count that it has begun, once."""
        if not self.has_begun:
            self.has_begun = True
            trajectories.began(self.scope, _SOURCE)

    def place(self, context: Context) -> tuple[Context, list[Link]]:
        """Return the context and the links of its span: a trace of its own, linked to the step, inside of a step."""
        of_step = self.of_step
        if of_step is None or get_current_span(context).get_span_context().trace_id != of_step.trace_id:
            return context, []
        return set_span_in_context(INVALID_SPAN, context), [Link(of_step)]

    def context_below(self, span: Span, context: Context) -> Context:
        """Return ``context`` as part of the trajectory that ``span`` stands for."""
        self._stands_for(span)
        context = open_trajectory.context_with(self.counters, context)
        return context if self.held is None else rollout_spans.marked(span, context)

    def context_awaiting_span(self, context: Context) -> Context:
        """Return ``context`` as part of the trajectory; the first span that the library starts in it stands for it."""
        _awaiting[self.counters] = self
        sampling.adopt = _adopt
        return open_trajectory.context_with(self.counters, self.place(context)[0])

    def adopt(self, span: Span) -> None:
        """Let the first span that the library has started stand for it."""
        self._stands_for(span)
        span.set_attribute(attributes.RL_ROLLOUT_ID, self.ids[attributes.RL_ROLLOUT_ID])
        if self.of_step is not None and getattr(span, "parent", None) is None:
            span.add_link(self.of_step)
        if self.held is not None:
            span.set_attribute(attributes.RL_SAMPLING_BEYOND_LIMIT, 1)

    def _stands_for(self, span: Span) -> None:
        self.span = span
        self.held = rollout_spans.began(span, self.ids.get(attributes.RL_LOOP_ITERATION))

    def end(self, seconds: float, error: BaseException | str | None) -> trajectory_rows.Ended | None:
        """Add its row and return it; None if it turned out to be no trajectory."""
        _awaiting.pop(self.counters, None)
        with guard("agents.trajectory"):
            if self.counters.has_counted:
                self.begin()
            if not self.has_begun:
                self.counters.has_ended = True
                return None
            ended = trajectory_rows.Ended(self.counters, self.ids, self.span, seconds, error)
            totals = trajectory_rows.add(self.scope, _SOURCE, ended)
            if self.span is not None and self.span.is_recording():
                self.span.set_attributes(totals)
            return ended
        return None

    def let_go(self, ended: trajectory_rows.Ended | None) -> None:
        """Decide whether its spans leave; called when the last of them has ended."""
        if self.held is not None:
            with guard("agents.rollout_spans"):
                rollout_spans.ended(self.held, ended, is_forced=False)


def of_run(scope: Scope, described: Mapping[str, Any], identifier: str | None = None) -> AgentTrajectory | None:
    """Return the trajectory that a run may be; None inside of a rollout or another agent's run.

    Args:
        scope: of the instrumentor.
        described: attributes of the run's span, from which its row takes the names of agent and conversation.
        identifier: id of the row; a random one by default.
    """
    if open_trajectory.current() is not None:
        return None
    step = steps.where().step
    ids: dict[str, Any] = {attributes.RL_ROLLOUT_ID: identifier or random_name(), **correlation_attributes(None)}
    name = described.get(attributes.GEN_AI_AGENT_NAME) or described.get(attributes.GEN_AI_WORKFLOW_NAME)
    known = {
        attributes.GEN_AI_AGENT_NAME: name,
        attributes.GEN_AI_CONVERSATION_ID: described.get(attributes.GEN_AI_CONVERSATION_ID),
    }
    ids |= {key: text(str(value), MAXIMUM_LENGTH) for key, value in known.items() if value}
    if step is not None:
        ids.setdefault(attributes.RL_LOOP_ITERATION, step.iteration)
    counters = open_trajectory.OpenTrajectory(ids[attributes.RL_ROLLOUT_ID])
    return AgentTrajectory(scope, counters, ids, None if step is None else step.span_context)


#: Trajectories whose span the library has not started yet.
_awaiting: WeakKeyDictionary[OpenTrajectory, AgentTrajectory] = WeakKeyDictionary()


def _adopt(span: Span, parent: Context | None) -> None:
    """Let a span that starts stand for the trajectory that waits for one."""
    if not _awaiting:
        return
    counters = open_trajectory.current(parent)
    trajectory = None if counters is None else _awaiting.pop(counters, None)
    if trajectory is not None:
        trajectory.adopt(span)


lifecycle.after_fork_in_child(_awaiting.clear)
