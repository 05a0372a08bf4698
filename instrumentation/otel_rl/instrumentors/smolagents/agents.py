"""Runs of agents: ``MultiStepAgent.run``, as a stream or not, ends at one generator of steps."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.agents.runs import AgentRun, agent
from otel_rl.instrumentors.coexistence import is_active
from otel_rl.instrumentors.followed_calls import follow
from otel_rl.instrumentors.smolagents import models, tools
from otel_rl.semconv.attributes import RlRolloutStatusValues
from otel_rl.telemetry import Scope
from otel_rl.telemetry.attribute_values import error_type

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.telemetry.deferral import Moment

scope = Scope("smolagents")
#: The error of the last step of a run that has used up its steps; it answers anyway.
_LIMIT = "AgentMaxStepsError"


class _MultiStepRun(AgentRun):
    """A run of an agent."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        own = given["self"]
        is_taken = is_active("opentelemetry.instrumentation.genai.smolagents", "SmolagentsInstrumentor")
        has_span = not (is_taken or tools.are_taken())
        super().__init__(scope, agent(own.name or type(own).__name__), has_span=has_span)
        self._agent = own

    def produced(self, item: Any) -> None:
        """See whether the run ends without an answer of the agent."""
        if type(item).__name__ == "FinalAnswerStep":
            error = getattr(self._agent.memory.steps[-1], "error", None)
            if error is not None and type(error).__name__ == _LIMIT:
                self.fail(error_type(error))

    def end(self, error: BaseException | str | None = None, at: Moment | None = None) -> None:
        """End it; an agent that the program interrupts raises an error."""
        is_cancelled = error is not None and self._agent.interrupt_switch
        super().end(RlRolloutStatusValues.CANCELLED if is_cancelled else error, at)


def patch_agents(module: ModuleType, patches: Patches) -> None:
    """Follow runs, the tools that they call, and the models of agents that are made."""
    follow(patches, module, "MultiStepAgent._run_stream", _MultiStepRun, required=True)
    patches.observe(module, "MultiStepAgent.__call__", begin=tools.begin, end=tools.end, required=True)
    follow_model = partial(models.follow_model, patches, set())
    patches.observe(module, "MultiStepAgent.__init__", after=follow_model, required=True)
    execute = "ToolCallingAgent.execute_tool_call"
    patches.observe(module, execute, begin=tools.begin_execution, end=tools.end, required=True)
