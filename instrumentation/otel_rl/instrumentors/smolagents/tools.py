"""Tools: an agent that calls tools executes them by name, one that writes code calls the objects in its interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.trace import INVALID_SPAN

from otel_rl.instrumentors.coexistence import is_active
from otel_rl.instrumentors.patch_functions import observing
from otel_rl.telemetry import Scope
from otel_rl.tools import calls, open_tools, outcomes
from otel_rl.tools.calls import ToolCall
from otel_rl.tools.outcomes import Failure

if TYPE_CHECKING:
    from opentelemetry.trace import Span

scope = Scope("smolagents")
#: Raised for arguments that do not fit the tool, before it is called.
_BAD_ARGUMENTS = "AgentToolCallError"
#: The library's name for running the code of a model.
_INTERPRETER = "python_interpreter"


class _ExecutedTool(ToolCall):
    """A call of a tool or of a managed agent; the span of OpenInference may begin inside of it."""

    __slots__ = ()

    def _find_owner(self) -> Span | None:
        return super()._find_owner() or (INVALID_SPAN if are_taken() else None)


def are_taken() -> bool:
    """Return whether OpenInference's instrumentor is active: runs and tools are its spans."""
    return is_active("openinference.instrumentation.smolagents", "SmolagentsInstrumentor")


def _begin_code(_: Any, code_action: str) -> ToolCall:
    return ToolCall(scope, _INTERPRETER, arguments=code_action).start()


def _end_code(call: ToolCall, output: Any, error: BaseException | None) -> None:
    end(call, None if output is None else vars(output), error)


def begin_execution(agent: Any, tool_name: str, arguments: Any) -> ToolCall | None:
    """Begin ``ToolCallingAgent.execute_tool_call``, which also refuses what does not exist or does not fit."""
    if tool_name in agent.tools or tool_name in agent.managed_agents:
        return _ExecutedTool(scope, tool_name, arguments=arguments).start()
    calls.record_unknown(scope, tool_name)
    return None


def begin(tool: Any, /, *args: Any, **kwargs: Any) -> ToolCall | None:
    """Begin the call of a tool or managed agent, unless it is that of an execution by name."""
    around = open_tools.here()
    is_execution = around is not None and (around.name, around.scope) == (tool.name, scope.name)
    if is_execution:
        return None
    kwargs.pop("sanitize_inputs_outputs", None)
    return _ExecutedTool(scope, tool.name, arguments=kwargs or args).start()


def end(call: ToolCall, result: Any, error: BaseException | None) -> None:
    """End the call; the library wraps what the tool raised."""
    if type(error).__name__ == _BAD_ARGUMENTS:
        call.fail(Failure(_BAD_ARGUMENTS, outcomes.INVALID_ARGUMENTS))
        call.end()
    else:
        is_wrapped = type(error).__name__ == "AgentToolExecutionError"
        call.ended(result, getattr(error, "__cause__", None) if is_wrapped else error)


#: Runs of the code that a model writes; the tools that it calls are inside of them.
patch_local_executor = observing("LocalPythonExecutor.__call__", begin=_begin_code, end=_end_code)
patch_remote_executors = observing("RemotePythonExecutor.__call__", begin=_begin_code, end=_end_code)
patch_tools = observing("Tool.__call__", "PipelineTool.__call__", begin=begin, end=end)
