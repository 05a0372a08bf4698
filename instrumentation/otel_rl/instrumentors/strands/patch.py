"""Patches of what runs inside of Strands' own spans, and of the functions that start an agent."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl.agents import runs
from otel_rl.agents.runs import AgentRun
from otel_rl.api.model_calls import ModelCall
from otel_rl.instrumentors.followed_calls import follow
from otel_rl.semconv.attributes import GenAiOperationNameValues, GenAiProviderNameValues, RlRolloutStatusValues
from otel_rl.telemetry import Scope
from otel_rl.telemetry.content_capture import capture_content
from otel_rl.tools import calls, outcomes
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

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
    """A call of a tool. Strands measures it under a name of its own."""

    __slots__ = ()
    _owner_measures = False

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


def patch_content(module: ModuleType, patches: Patches) -> None:
    """Redact what Strands puts on its spans, unless the user wants content, or has told Strands what to redact."""
    patches.replace(module, "Tracer._is_attribute_unredacted", _only_if_wanted, required=True)
    patches.replace(module, "Tracer._add_event", _without_memories, required=True)


def _is_wanted(tracer: Any) -> bool:
    return tracer._redaction_enabled or capture_content()  # noqa: SLF001 - by the user's variable


def _only_if_wanted(original: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(original)
    def _is_unredacted(tracer: Any, name: str) -> bool:
        return _is_wanted(tracer) and original(tracer, name)

    return _is_unredacted


def _without_memories(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def _add_event(tracer: Any, span: Any, name: str, *args: Any, **kwargs: Any) -> None:
        if not name.startswith(_MEMORY) or _is_wanted(tracer):
            original(tracer, span, name, *args, **kwargs)

    return _add_event


def patch_agent(module: ModuleType, patches: Patches) -> None:
    """Follow the runs of agents; all ways to start one go through these."""
    for name in ("stream_async", "structured_output_async"):
        follow(patches, module, f"Agent.{name}", _run_begins, required=name == "stream_async")


def patch_graph(module: ModuleType, patches: Patches) -> None:
    """Follow the runs of graphs."""
    follow(patches, module, "Graph.stream_async", _run_begins, required=True)


def patch_swarm(module: ModuleType, patches: Patches) -> None:
    """Follow the runs of swarms."""
    follow(patches, module, "Swarm.stream_async", _run_begins, required=True)


def patch_tools(module: ModuleType, patches: Patches) -> None:
    """Follow tools, inside of their span."""
    follow(patches, module, "_run_tool", _tool_begins, required=True)


def patch_cycles(module: ModuleType, patches: Patches) -> None:
    """End the spans of cycles that are cancelled or left, which Strands leaves open."""
    patches.observe(module, "event_loop_cycle", begin=_cycle_begins, end=_cycle_ended)


def patch_models(module: ModuleType, patches: Patches) -> None:
    """Follow model calls, inside of their span."""
    follow(patches, module, "stream_messages", _model_begins, required=True)


def _run_begins(given: Mapping[str, Any]) -> AgentRun:
    # Graphs and swarms have an id only.
    own = given["self"]
    return _StrandsRun(scope, runs.agent(getattr(own, "name", None) or own.id), has_span=False)


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
