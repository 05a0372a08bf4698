"""Patches around the runner of agents, and the function that makes the span of a tool."""

from __future__ import annotations

import functools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api

from otel_rl.agents import runs
from otel_rl.agents.runs import AgentRun
from otel_rl.core.guard import guard
from otel_rl.instrumentors.followed_calls import following
from otel_rl.instrumentors.patch_functions import observing, replacing
from otel_rl.semconv import attributes
from otel_rl.telemetry import Scope
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from opentelemetry.trace import Span

scope = Scope("google_adk")


class _AdkTool(ToolCall):
    """A call of a tool. ADK's span of it has no attributes before its end."""

    __slots__ = ()

    def _find_owner(self) -> Span | None:
        span = trace_api.get_current_span()
        return span if span.is_recording() else None

    def answered(self, tool: Any, outcome: Any) -> None:
        """Take the outcome that ADK has noted: an error is part of the answer."""
        if type(tool).__name__ == "BaseTool":
            # It stands for a tool that does not exist.
            self.unknown()
        elif outcome.error_type is not None:
            self.fail(outcome.error_type)
        content = getattr(outcome.function_response_event, "content", None)
        for part in getattr(content, "parts", None) or ():
            if part.function_response is not None:
                self.result(part.function_response.response)


def _run_begins(given: Mapping[str, Any]) -> AgentRun:
    return AgentRun(scope, runs.agent(getattr(given["self"].agent, "name", ""), given["session_id"]), has_span=False)


def _record_tool_execution(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def record_tool_execution(tool: Any, agent: Any, function_args: Any, *args: Any, **kwargs: Any) -> Any:
        return _followed(original(tool, agent, function_args, *args, **kwargs), tool, function_args)

    return record_tool_execution


@asynccontextmanager
async def _followed(tool_span: Any, tool: Any, arguments: Any) -> AsyncIterator[Any]:
    async with tool_span as outcome:
        with _AdkTool(scope, tool.name, arguments=arguments) as call:
            yield outcome
            with guard("google_adk.answered"):
                call.answered(tool, outcome)


def _results_merged(*_: Any, **__: Any) -> None:
    trace_api.get_current_span().set_attribute(attributes.GEN_AI_OPERATION_NAME, "merge_tool_results")


patch_runners = following("Runner.run_async", begin=_run_begins)
patch_tool_spans = replacing("record_tool_execution", _record_tool_execution)
#: The joined results of parallel tools have a span, too, and each of the tools has one already.
patch_merged_tools = observing("trace_merged_tool_calls", required=False, after=_results_merged)
