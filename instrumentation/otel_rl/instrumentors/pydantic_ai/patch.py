"""Switches the library's spans on, and adds what they lack: rows, outcomes and durations of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import NoOpMeterProvider

from otel_rl.agents.runs import AgentRun, agent
from otel_rl.inference import ownership
from otel_rl.instrumentors.patch_functions import observing, together
from otel_rl.telemetry import Scope, redaction
from otel_rl.telemetry.content_capture import capture_content
from otel_rl.tools import calls, outcomes
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

scope = Scope("pydantic_ai")
#: Of the library's spans.
_SCOPE = "pydantic-ai"
#: What the library's span of a tool says if it was not called.
_STAGE, _VALIDATION = "pydantic_ai.tool.failure_stage", "validation"
#: Raised to pass a call on to others, which is no failure.
_DEFERRALS = frozenset({"ApprovalRequired", "CallDeferred"})


def _switch_on(module: ModuleType, patches: Patches) -> None:
    agents = module.Agent
    if agents._instrument_default is not False:  # noqa: SLF001 - `Agent.instrument_all` only sets it
        return
    settings = module.InstrumentationSettings(
        # The metrics of model calls are ours, with the registry's boundaries.
        meter_provider=NoOpMeterProvider(),
        # A function that redacts content sees ours alone.
        include_content=capture_content() and redaction.redact() is None,
        # The whole definition of each tool again.
        include_model_request_parameters=False,
    )
    agents.instrument_all(settings)
    ownership.OWNERS[_SCOPE] = ownership.Owner(only_model_calls=False, measures=frozenset())
    # Settings of the program come with metrics.
    patches.observe(module, "Agent.instrument_all", before=_forget_owner)

    def switch_off() -> None:
        """Leave the library as it was, unless the program has settings of its own by now."""
        _forget_owner()
        if agents._instrument_default is settings:  # noqa: SLF001 - see above
            agents.instrument_all(instrument=False)

    patches.on_restore(switch_off)


def _forget_owner(*_: Any, **__: Any) -> None:
    ownership.OWNERS.pop(_SCOPE, None)


def _run_begins(own: Any, *_: Any, **__: Any) -> AgentRun:
    # The program may have switched the library's spans off.
    is_silent = own._resolve_instrumentation_settings() is None  # noqa: SLF001 - also considers those of all agents
    return AgentRun(scope, agent(own.name or ""), has_span=is_silent)


def _run_ends(run: AgentRun, _: None, error: BaseException | None) -> None:
    run.end(None if isinstance(error, GeneratorExit) else error)


def _tool_begins(_: Any, validated: Any, **__: Any) -> ToolCall | None:
    if validated.tool.tool_def.kind == "output":
        return None
    call = validated.call
    return ToolCall(scope, call.tool_name, call.tool_call_id, arguments=validated.validated_args).start()


def _tool_ends(call: ToolCall, result: Any, error: BaseException | None) -> None:
    if error is None:
        call.result(result)
    # What a tool raises to be called again is wrapped.
    raised = None if error is None else error.__cause__ or error
    call.end(None if type(raised).__name__ in _DEFERRALS else raised)


def _validation_begins(manager: Any, call: Any, **__: Any) -> tuple[Any, Any] | None:
    return None if call.tool_name in manager.tools else (call.tool_name, call.tool_call_id)


def _validation_ends(unknown: tuple[str, str], *_: Any) -> None:
    calls.record_unknown(scope, *unknown)


def _retries(span: Any, _: Any, __: Any, context: Any) -> None:
    """Add to the span that the library has for arguments that do not fit, whose tool is never called."""
    if scope.enabled and (span.attributes or {}).get(_STAGE) == _VALIDATION:
        with ToolCall(scope, context.tool_name, context.tool_call_id) as refused:
            refused.fail(outcomes.INVALID_ARGUMENTS)


#: All ways to start a run go through ``iter``.
patch_agent = together(_switch_on, observing("Agent.iter", begin=_run_begins, end=_run_ends))
#: Tools inside of their spans, and calls of tools that do not exist.
patch_tools = together(
    observing("ToolManager._raw_execute", begin=_tool_begins, end=_tool_ends),
    observing("ToolManager.validate_tool_call", begin=_validation_begins, end=_validation_ends),
)
patch_spans = observing("_record_retry", before=_retries, required=False)
