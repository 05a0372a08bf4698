"""Agents, tools and handoffs, as the library's own spans begin and end.

Observes the spans instead of adding a processor: a program may replace all processors, adding the first one creates the
library's exporter, and no processor gets the spans of a switched-off tracing. Spans start and finish in the context of
their operation, in which the library makes them current, too.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from opentelemetry import trace as trace_api

from otel_rl.agents import workflows
from otel_rl.agents.runs import AgentRun, agent
from otel_rl.inference import ownership, tool_round_trips
from otel_rl.inference.message_parts import decoded_arguments
from otel_rl.instrumentors.openai_agents import runs
from otel_rl.instrumentors.openai_agents.runs import scope
from otel_rl.instrumentors.patch_functions import observing, together
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import ErrorTypeValues
from otel_rl.telemetry import open_trajectory
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.tools import calls, outcomes
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from otel_rl.tools.outcomes import Failure

#: Failure that a streamed run does not raise inside of the agent -> the class that its reader gets.
_LIMITS = {"Max turns exceeded": "agents.exceptions.MaxTurnsExceeded"}
_UNKNOWN_TOOL = "Tool not found"
#: Raised for arguments that are no JSON, or do not fit the tool.
_BAD_ARGUMENTS = "ModelBehaviorError"


def _handled() -> BaseException | None:
    return sys.exc_info()[1]


@dataclass(slots=True, eq=False, repr=False)
class _TracedOperation:
    """The operation of a span of the library; None if another instrumentor records it."""

    operation: AgentRun | ToolCall | None
    #: Exception that the program was handling at the start: no error of the operation.
    handled: BaseException | None = field(default_factory=_handled)
    #: The library has set a failure, and may raise an error of its own for it.
    has_failed: bool = False

    def error(self) -> BaseException | None:
        """Return the exception that is raised through the span, or handled inside of it."""
        error = _handled()
        return None if error is self.handled else error

    def fail(self, message: str) -> None:
        """Take over a failure that the library has set on its span."""
        error, self.has_failed = self.error(), True
        if isinstance(self.operation, ToolCall):
            self.operation.fail(_failure_of_tool(error))
            return
        kind = error_type(error) if error is not None else _LIMITS.get(message, ErrorTypeValues.OTHER)
        for failed in (self.operation, workflows.current()):
            if failed is not None:
                failed.fail(kind)

    def end(self, output: object) -> None:
        """End it with its span."""
        error = self.error()
        if isinstance(self.operation, ToolCall):
            error = None if self.has_failed else error
            if output is not None:
                self.operation.result(output)
        if self.operation is not None:
            self.operation.end(error)


def _failure_of_tool(error: BaseException | None) -> Failure:
    if error is None:
        return outcomes.declared(ErrorTypeValues.OTHER)
    failure = outcomes.raised(error)
    return failure._replace(outcome=outcomes.INVALID_ARGUMENTS) if type(error).__name__ == _BAD_ARGUMENTS else failure


_open: WeakKeyDictionary[Any, _TracedOperation] = WeakKeyDictionary()
#: The model's tool call whose function span starts next in this task.
_asked: ContextVar[Any] = ContextVar("otel_rl_openai_agents_tool_call", default=None)


def _hands_over(*_: Any, run_handoffs: Any, **__: Any) -> None:
    """Forget the calls of a model that hand over: they are no calls of tools."""
    trajectory = open_trajectory.current()
    if trajectory is not None:
        for handoff in run_handoffs:
            tool_round_trips.forget(trajectory, handoff.tool_call.call_id)


def _times_out(_: None, error: Any, *__: Any, **___: Any) -> None:
    """Note that a tool ran out of time: the library may go on with a text that reports it."""
    span = sys.modules["agents.tracing"].get_current_span()
    opened = None if span is None else _open.get(span)
    if opened is not None and isinstance(opened.operation, ToolCall):
        opened.operation.fail(outcomes.raised(error))


def _asks(_: Any, *, tool_call: Any, **__: Any) -> None:
    """Remember the call of a function, whose span does not have the arguments when it begins."""
    _asked.set(tool_call)


def _started(_: Any, span: Any, mark_as_current: bool = False) -> None:
    if not mark_as_current or not scope.enabled or span in _open:
        return
    data = span.span_data
    begin = _BEGIN.get(data.type)
    if begin is not None:
        _open[span] = _TracedOperation(begin(data.name))


def _agent(name: str) -> AgentRun | None:
    run = workflows.current()
    if runs.is_taken():
        if run is not None:
            values = {attributes.RL_AGENT_HANDOFF_SOURCE: run.handoff_source}
            ownership.add_attributes(trace_api.get_current_span(), values)
            run.handoff_source = None
        return None
    return AgentRun(scope, agent(name)) if run is None else run.begin_agent(name)


def _tool(name: str) -> ToolCall:
    asked = _asked.get()
    _asked.set(None)
    arguments = decoded_arguments(getattr(asked, "arguments", None))
    return ToolCall(scope, name, getattr(asked, "call_id", None), arguments=arguments).start()


_BEGIN = {"agent": _agent, "function": _tool}


def _failed(span: Any, error: Any) -> None:
    message = error.get("message")
    if message == _UNKNOWN_TOOL:
        # An error of the agent only if the library then raises it.
        calls.record_unknown(scope, str((error.get("data") or {}).get("tool_name")))
        return
    opened = _open.get(span)
    if opened is not None:
        opened.fail(message)


def _finishes(span: Any, *_: Any, **__: Any) -> None:
    data, run = span.span_data, workflows.current()
    if data.type == "handoff" and run is not None:
        run.handoff_source = data.from_agent
    opened = _open.pop(span, None)
    if opened is not None:
        opened.end(getattr(data, "output", None))


#: The second kind stands for the first if tracing is disabled.
patch_spans = together(
    observing("SpanImpl.start", "NoOpSpan.start", after=_started),
    observing("SpanImpl.finish", "NoOpSpan.finish", before=_finishes),
    observing("SpanImpl.set_error", "NoOpSpan.set_error", before=_failed),
)
patch_tools = observing("_FunctionToolBatchExecutor._run_single_tool", before=_asks, required=False)
patch_handoffs = observing("execute_handoffs", before=_hands_over, required=False)
patch_timeouts = observing("ToolTimeoutError.__init__", after=_times_out, required=False)
