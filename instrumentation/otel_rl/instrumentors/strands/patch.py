"""Patches of what runs inside of Strands' own spans, and of the functions that start an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.agents import runs
from otel_rl.agents.runs import AgentRun
from otel_rl.api.model_calls import ModelCall
from otel_rl.instrumentors.followed_calls import following
from otel_rl.instrumentors.patch_functions import bypassing, observing, together
from otel_rl.semconv.attributes import GenAiOperationNameValues, GenAiProviderNameValues, RlRolloutStatusValues
from otel_rl.telemetry import Scope
from otel_rl.telemetry.content_capture import capture_content
from otel_rl.tools import calls, outcomes
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping

scope = Scope("strands")
#: Modules of Strands' models whose provider has another name in the conventions.
_PROVIDERS = {"bedrock": GenAiProviderNameValues.AWS_BEDROCK, "gemini": GenAiProviderNameValues.GCP_GEMINI}

#: Begin of events with content that Strands has no redaction for.
_MEMORY = "memory."


class _StrandsRun(AgentRun):
    def produced(self, event: Any) -> None:
        """Note that the program has cancelled the agent, which raises nothing."""
        result = event.get("result") if isinstance(event, dict) else None
        if getattr(result, "stop_reason", None) == RlRolloutStatusValues.CANCELLED:
            self.fail(RlRolloutStatusValues.CANCELLED)


class _StrandsTool(ToolCall):
    __slots__ = ()

    def produced(self, event: Any) -> None:
        """Take the result: an exception of the tool is part of it."""
        result = getattr(event, "tool_result", None)
        if result is None:
            return
        if event.exception is not None:
            self.fail(outcomes.raised(event.exception))
        elif result.get("status") == "error":
            self.fail(outcomes.TOOL_ERROR)
        self.result(result.get("content"))


class _StrandsModel(ModelCall):
    """A call of a model; one of an instrumented client inside counts instead."""

    def produced(self, event: Any) -> None:
        """Take usage and reason from the last event."""
        if "stop" in event:
            reason, _, usage, _ = event["stop"]
            self.usage(usage.get("inputTokens"), usage.get("outputTokens"), usage.get("cacheReadInputTokens"))
            self.finish(reason)


def _is_wanted(tracer: Any) -> bool:
    return tracer._redaction_enabled or capture_content()  # noqa: SLF001 - by the user's variable


def _is_unwanted_memory(tracer: Any, _: Any, name: str, *__: Any, **___: Any) -> bool:
    return name.startswith(_MEMORY) and not _is_wanted(tracer)


def _run_begins(given: Mapping[str, Any]) -> AgentRun:
    # Graphs and swarms have no name.
    return _StrandsRun(scope, runs.agent(getattr(given["self"], "name", None) or ""), has_span=False)


def _cycle_begins(_: Any, invocation_state: dict[str, Any], *__: Any, **___: Any) -> dict[str, Any]:
    return invocation_state


def _cycle_ended(state: dict[str, Any], _: Any, error: BaseException | None) -> None:
    span = state.get("event_loop_cycle_span")
    if error is not None and span is not None and span.is_recording():
        span.end()


def _tool_begins(given: Mapping[str, Any]) -> ToolCall | None:
    tool, use = given["ctx"].tool, given["ctx"].tool_use
    if tool is None:
        calls.record_unknown(scope, use["name"], use.get("toolUseId"))
        return None
    return _StrandsTool(scope, use["name"], use.get("toolUseId"), arguments=use.get("input")).start()


def _model_begins(given: Mapping[str, Any]) -> ModelCall:
    model = given["model"]
    kind = type(model).__module__.rpartition(".")[2]
    name = (getattr(model, "config", None) or {}).get("model_id") or ""
    return _StrandsModel(name, GenAiOperationNameValues.CHAT, _PROVIDERS.get(kind, kind), {"stream": True}, scope)


#: What Strands puts on its spans is redacted, unless the user wants content, or has told Strands what to redact.
patch_content = together(
    bypassing(
        "Tracer._is_attribute_unredacted", when=lambda tracer, _: not _is_wanted(tracer), result=lambda *_: False
    ),
    bypassing("Tracer._add_event", when=_is_unwanted_memory, result=lambda *_, **__: None),
)
#: All ways to start an agent go through these.
patch_agent = together(
    following("Agent.stream_async", begin=_run_begins),
    following("Agent.structured_output_async", begin=_run_begins, required=False),
)
patch_graph = following("Graph.stream_async", begin=_run_begins)
patch_swarm = following("Swarm.stream_async", begin=_run_begins)
#: These two run inside of the library's span.
patch_tools = following("_run_tool", begin=_tool_begins)
patch_models = following("stream_messages", begin=_model_begins)
#: Strands leaves open the spans of cycles that are cancelled or left.
patch_cycles = observing("event_loop_cycle", required=False, begin=_cycle_begins, end=_cycle_ended)
