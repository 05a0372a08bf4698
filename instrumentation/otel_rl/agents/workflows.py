"""Runs of several agents that hand over to each other: one workflow, in which each agent has a run of its own."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

from otel_rl.agents.runs import AgentRun, agent, workflow
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from contextvars import Token

    from otel_rl.telemetry.scope import Scope


class WorkflowRun(AgentRun):
    """A workflow; ``handoff_source`` is the agent whose handoff starts the next one."""

    handoff_source: str | None = None

    def __init__(self, scope: Scope, name: str, conversation: str | None = None, *, has_span: bool = True) -> None:
        super().__init__(scope, workflow(name, conversation), has_span=has_span)
        self._before: Token[WorkflowRun | None] | None = _current.set(self)

    def begin_agent(self, name: str) -> AgentRun:
        """Begin the run of an agent, which is current then."""
        described = agent(name)
        described.values[attributes.RL_AGENT_HANDOFF_SOURCE], self.handoff_source = self.handoff_source, None
        return AgentRun(self._scope, described)

    def leave(self) -> None:
        """See the base class."""
        super().leave()
        before, self._before = self._before, None
        if before is not None:
            with suppress(ValueError):  # left in another task
                _current.reset(before)


_current: ContextVar[WorkflowRun | None] = ContextVar("otel_rl_workflow", default=None)
#: Returns the workflow that the caller is in.
current = _current.get
