"""Wrappers around agent workflows, each step of which runs in a task of its own.

A run is started by a function that returns at once; its tasks inherit the context of that call. Only the step knows
its agent, so the agent's context is attached step by step.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.agents import workflows
from otel_rl.agents.runs import AgentRun, agent
from otel_rl.agents.workflows import WorkflowRun
from otel_rl.instrumentors.coexistence import is_active
from otel_rl.semconv.attributes import RlRolloutStatusValues
from otel_rl.telemetry import Scope, guard
from otel_rl.telemetry.context import attach, detach
from otel_rl.tools import outcomes
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from asyncio import Task
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

scope = Scope("llama_index")
#: What `WorkflowHandler.cancel_run` ends a run with.
_CANCELLED = "WorkflowCancelledByUser"


class _AgentsRun(WorkflowRun):
    """A workflow, and the agent that is at work in it."""

    _name: str | None = None
    _agent: AgentRun | None = None

    def enter_agent(self, name: str | None = None) -> ExitStack:
        """Be in the run of the agent of this name, or of the one that is at work, until the result is closed."""
        stack = ExitStack()
        if name is not None and name != self._name:
            self._end_agent(None)
            self.handoff_source, self._name = self._name, name
            self._agent = self.begin_agent(name)
            stack.callback(self._agent.leave)
        elif self._agent is not None:
            stack.callback(detach, attach(self._agent.context))
        return stack

    def end(self, error: BaseException | str | None = None, at: Any = None) -> None:
        """See the base class."""
        self._end_agent(error)
        super().end(error, at)

    def _end_agent(self, error: BaseException | str | None) -> None:
        if self._agent is not None:
            self._agent.end(error)


def patch_agent(module: ModuleType, patches: Patches) -> None:
    """Follow runs of one agent, and its tools."""
    patches.observe(module, "BaseWorkflowAgent.run", begin=_agent_begins, end=_run_returns, required=True)
    patches.observe(module, "BaseWorkflowAgent.call_tool", begin=_tool_begins, end=_tool_ends, required=True)


def patch_workflow(module: ModuleType, patches: Patches) -> None:
    """Follow runs of several agents, and their tools."""
    patches.observe(module, "AgentWorkflow.run", begin=_workflow_begins, end=_run_returns, required=True)
    patches.observe(module, "AgentWorkflow.run_agent_step", begin=_step_begins, end=_step_ends, required=True)
    patches.observe(module, "AgentWorkflow.call_tool", begin=_tool_begins, end=_tool_ends, required=True)


def _is_taken() -> bool:
    return is_active("opentelemetry.instrumentation.genai.llama_index", "LlamaIndexInstrumentor")


def _agent_begins(own: Any, *_: Any, **__: Any) -> AgentRun | None:
    return AgentRun(scope, agent(own.name), has_span=not _is_taken()) if scope.enabled else None


def _workflow_begins(own: Any, *_: Any, **__: Any) -> WorkflowRun | None:
    name = type(own).__name__
    if not scope.enabled:
        return None
    return WorkflowRun(scope, name, has_span=False) if _is_taken() else _AgentsRun(scope, name)


def _run_returns(run: AgentRun, handler: Any, error: BaseException | None) -> None:
    run.leave()
    if error is not None:
        run.end(error)
        return
    handler._result_task.add_done_callback(partial(_run_ends, run))  # noqa: SLF001 - the handler has no other callback


def _run_ends(run: AgentRun, task: Task[Any]) -> None:
    with guard("llama_index.run"):
        error = None if task.cancelled() else task.exception()
        is_cancelled = task.cancelled() or type(error).__name__ == _CANCELLED
        run.end(RlRolloutStatusValues.CANCELLED if is_cancelled else error)


def _step_begins(_: Any, ctx: Any, ev: Any) -> ExitStack | None:  # noqa: ARG001 - given by these names
    run = workflows.current()
    return run.enter_agent(ev.current_agent_name) if isinstance(run, _AgentsRun) else None


def _step_ends(entered: ExitStack, *_: Any) -> None:
    entered.close()


def _tool_begins(_: Any, ctx: Any, ev: Any) -> tuple[ToolCall, ExitStack] | None:  # noqa: ARG001 - see above
    if not scope.enabled:
        return None
    run = workflows.current()
    entered = run.enter_agent() if isinstance(run, _AgentsRun) else ExitStack()
    return ToolCall(scope, ev.tool_name, ev.tool_id, arguments=ev.tool_kwargs).start(), entered


def _tool_ends(begun: tuple[ToolCall, ExitStack], result: Any, error: BaseException | None) -> None:
    call, entered = begun
    with entered:
        call.ended(result, error, _note)


def _note(call: ToolCall, result: Any) -> None:
    output = result.tool_output
    if output.is_error and output.exception is None and output.raw_output is None:
        call.unknown()
    elif output.is_error:
        call.fail(outcomes.TOOL_ERROR if output.exception is None else outcomes.raised(output.exception))
    call.result(output.raw_output)
