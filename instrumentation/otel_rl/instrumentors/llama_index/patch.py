"""Wrappers around agent workflows, each step of which runs in a task of its own.

A run is started by a function that returns at once; its tasks inherit the context of that call. Only the step knows
its agent, so the agent's context is attached step by step.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.agents import workflows
from otel_rl.agents.runs import AgentRun, agent
from otel_rl.agents.workflows import WorkflowRun
from otel_rl.instrumentors.coexistence import is_active
from otel_rl.instrumentors.patch_functions import left, observing, together
from otel_rl.semconv.attributes import RlRolloutStatusValues
from otel_rl.telemetry import Scope, guard
from otel_rl.telemetry.context import attach
from otel_rl.tools import outcomes
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from asyncio import Task
    from contextvars import Token

    from opentelemetry.context import Context

scope = Scope("llama_index")
#: What `WorkflowHandler.cancel_run` ends a run with.
_CANCELLED = "WorkflowCancelledByUser"


class _AgentsRun(WorkflowRun):
    """A workflow, and the agent that is at work in it."""

    _name: str | None = None
    _agent: AgentRun | None = None

    def context_of(self, name: str) -> Context:
        """Return the context of the agent of this name, whose run begins unless it is at work."""
        if self._agent is None or name != self._name:
            self._end_agent(None)
            self.handoff_source, self._name = self._name, name
            self._agent = self.begin_agent(name)
            self._agent.leave()
        return self._agent.context

    @property
    def context_at_work(self) -> Context | None:
        """The context of the agent that is at work."""
        return None if self._agent is None else self._agent.context

    def end(self, error: BaseException | str | None = None, at: Any = None) -> None:
        """See the base class."""
        self._end_agent(error)
        super().end(error, at)

    def _end_agent(self, error: BaseException | str | None) -> None:
        if self._agent is not None:
            self._agent.end(error)


def _is_taken() -> bool:
    return is_active("opentelemetry.instrumentation.genai.llama_index", "LlamaIndexInstrumentor")


def _agent_begins(own: Any, *_: Any, **__: Any) -> AgentRun:
    return AgentRun(scope, agent(own.name), has_span=not _is_taken())


def _workflow_begins(own: Any, *_: Any, **__: Any) -> WorkflowRun:
    name = type(own).__name__
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


def _step_begins(_: Any, ctx: Any, ev: Any) -> Token[Context] | None:  # noqa: ARG001 - given by these names
    run = workflows.current()
    return attach(run.context_of(ev.current_agent_name)) if isinstance(run, _AgentsRun) else None


def _tool_begins(_: Any, ctx: Any, ev: Any) -> ToolCall:  # noqa: ARG001 - see above
    run = workflows.current()
    within = run.context_at_work if isinstance(run, _AgentsRun) else None
    return ToolCall(scope, ev.tool_name, ev.tool_id, arguments=ev.tool_kwargs, within=within).start()


def _tool_ends(call: ToolCall, result: Any, error: BaseException | None) -> None:
    call.ended(result, error, _note)


def _note(call: ToolCall, result: Any) -> None:
    output = result.tool_output
    if output.is_error and output.exception is None and output.raw_output is None:
        call.unknown()
    elif output.is_error:
        call.fail(outcomes.TOOL_ERROR if output.exception is None else outcomes.raised(output.exception))
    call.result(output.raw_output)


patch_agent = together(
    observing("BaseWorkflowAgent.run", begin=_agent_begins, end=_run_returns),
    observing("BaseWorkflowAgent.call_tool", begin=_tool_begins, end=_tool_ends),
)
patch_workflow = together(
    observing("AgentWorkflow.run", begin=_workflow_begins, end=_run_returns),
    observing("AgentWorkflow.run_agent_step", begin=_step_begins, end=left),
    observing("AgentWorkflow.call_tool", begin=_tool_begins, end=_tool_ends),
)
