"""Tool calls: wrapped around the tool, so that what its body does nests below it, and cancellation is seen."""

from __future__ import annotations

from typing import Any

from otel_rl.instrumentors.langchain import errors, other_instrumentors, runs
from otel_rl.instrumentors.langchain.errors import error_in, failure_in, is_message
from otel_rl.instrumentors.patch_functions import observing, together
from otel_rl.telemetry import Scope, guard
from otel_rl.telemetry.content_capture import capture_content
from otel_rl.tools import calls
from otel_rl.tools.calls import ToolCall

scope = Scope("langchain")


def _begin(tool: Any, *args: Any, **kwargs: Any) -> ToolCall:
    arguments, call_id = args[0] if args else kwargs.get("tool_input"), kwargs.get("tool_call_id")
    if other_instrumentors.is_taken():
        return ToolCall(scope, tool.name, call_id, arguments, has_span=False).start()
    parent = runs.open_run(getattr(kwargs.get("callbacks"), "parent_run_id", None))
    return ToolCall(scope, tool.name, call_id, arguments, within=runs.context_below(parent)).start()


def _end(call: ToolCall, result: Any, error: BaseException | None) -> None:
    # Whatever the result does when it is looked at, the context of the tool must not outlive it.
    with guard("langchain.tool_result"):
        if error is None:
            _note(call, result)
    call.end(error_in(error))


def _note(call: ToolCall, result: Any) -> None:
    failure = failure_in(result)
    if failure is not None:
        call.fail(failure)
    # Where no content is wanted, only of a message: the content of something else may be anything.
    is_shown = capture_content() or is_message(result)
    call.result(getattr(result, "content", result) if is_shown else result)


def _validated(refusal: Any, _: Any, call: Any, *__: Any, **___: Any) -> None:
    # It refuses a tool that does not exist: nobody runs it.
    if refusal is not None:
        calls.record_unknown(scope, str(call["name"]), call.get("id"))


patch_tools = together(
    observing("BaseTool.run", "BaseTool.arun", begin=_begin, end=_end),
    observing("_format_output", before=errors.formatted, required=False),
    observing("_handle_validation_error", "_handle_tool_error", before=errors.excused, required=False),
)
patch_tool_node = observing("ToolNode._validate_tool_call", after=_validated)
