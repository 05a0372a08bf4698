"""Runs of crews and agents; tools by their events, which crewAI emits in the context of the tool."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from otel_rl.agents import runs
from otel_rl.agents.runs import AgentRun
from otel_rl.instrumentors.followed_calls import following
from otel_rl.instrumentors.patch_functions import observing
from otel_rl.semconv.attributes import ErrorTypeValues
from otel_rl.telemetry import Scope
from otel_rl.tools import outcomes
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping

scope = Scope("crewai")
#: Open tools of this context with what announced them, the innermost last. Their names may differ at the end: a model
#: that asks in text may write one in another way.
_tools: ContextVar[tuple[tuple[Any, ToolCall], ...]] = ContextVar("otel_rl_crewai_tools", default=())


def _crew_begins(given: Mapping[str, Any]) -> AgentRun | None:
    crew = given["self"]
    # A streamed crew runs in a call of its own below this one.
    return None if crew.stream else AgentRun(scope, runs.workflow(crew.name or "crew"))


def _agent_begins(given: Mapping[str, Any]) -> AgentRun:
    return AgentRun(scope, runs.agent(given["self"].role.strip()))


def _emitting(_: Any, source: Any, event: Any) -> None:
    kind = type(event).__name__
    if kind == "ToolUsageStartedEvent":
        call = ToolCall(scope, event.tool_name, arguments=event.tool_args).start()
        _tools.set((*_tools.get(), (source, call)))
    elif kind in ("ToolUsageFinishedEvent", "ToolUsageErrorEvent"):
        tools = _tools.get()
        if tools and tools[-1][0] is source:
            _tools.set(tools[:-1])
            call, error = tools[-1][1], getattr(event, "error", None)
            call.metric_name = event.tool_name
            call.ended(event, error if isinstance(error, BaseException) else None, _note)


def _note(call: ToolCall, event: Any) -> None:
    failure = getattr(event, "failure", None)
    if hasattr(event, "error"):
        call.fail(ErrorTypeValues.OTHER)
    elif failure is None:
        call.result(event.output)
    elif failure.reason == outcomes.UNKNOWN_TOOL:
        call.unknown()
    else:
        call.fail(failure.reason.value)


patch_crews = following("Crew.kickoff", "Crew.akickoff", begin=_crew_begins)
#: At a task of a crew, or alone.
patch_agents = following(
    "Agent.execute_task",
    "Agent.aexecute_task",
    "Agent._execute_and_build_output",
    "Agent._execute_and_build_output_async",
    begin=_agent_begins,
)
patch_events = observing("CrewAIEventsBus.emit", before=_emitting)
