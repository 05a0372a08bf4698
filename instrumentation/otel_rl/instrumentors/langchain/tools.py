"""Tool calls: wrapped around the tool, so that what its body does nests below it, and cancellation is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.langchain import other_instrumentors, runs
from otel_rl.instrumentors.langchain.errors import UNKNOWN_TOOL, error_in, failure_in
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import ErrorTypeValues
from otel_rl.telemetry import Scope, guard, open_trajectory
from otel_rl.telemetry.content_capture import capture_content
from otel_rl.telemetry.context import attach, detach
from otel_rl.tools import open_tools
from otel_rl.tools.calls import ToolCall
from otel_rl.tools.open_tools import OpenTool

if TYPE_CHECKING:
    from contextvars import Token

    from otel_rl.telemetry.open_trajectory import OpenTrajectory

scope = Scope("langchain")


class _Observed:
    """One run of a tool; keeps the context of the node above it while the tool runs."""

    __slots__ = ("_attached", "_call", "_tool", "_trajectory")

    def __init__(self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._call: ToolCall | None = None
        self._attached: Token[Any] | None = None
        #: What the call is counted in where the span is that of another instrumentor.
        self._trajectory: OpenTrajectory | None = None
        self._tool: OpenTool | None = None
        with guard("langchain.tool_start"):
            if not scope.enabled:
                return
            if other_instrumentors.is_taken():
                self._trajectory = open_trajectory.of()
                self._tool = OpenTool(tool.name, scope.name, is_measured=False)
                self._attached = attach(open_tools.context_with(self._tool))
                return
            parent = runs.find(getattr(kwargs.get("callbacks"), "parent_run_id", None))
            context = runs.context_below(parent)
            if context is not None:
                self._attached = attach(context)
            arguments = args[0] if args else kwargs.get("tool_input")
            self._call = ToolCall(
                scope,
                tool.name,
                kwargs.get("tool_call_id"),
                arguments=arguments if capture_content() else None,
            ).start()

    def end(self, result: Any = None, error: BaseException | None = None) -> None:
        # Whatever the result does when it is looked at, the context of the tool must not outlive it.
        with guard("langchain.tool_result"):
            self._note(result, error)
        with guard("langchain.tool_end"):
            if self._call is not None:
                self._call.end(error_in(error))
            if self._tool is not None:
                self._tool.has_ended = True
            if self._attached is not None:
                detach(self._attached)

    def _note(self, result: Any, error: BaseException | None) -> None:
        if self._trajectory is not None:
            failed = error_in(error) is not None or (error is None and failure_in(result) is not None)
            self._trajectory.tool_call_ended(failed=failed)
        if self._call is None or error is not None:
            return
        failure = failure_in(result)
        if failure is not None:
            self._call.fail(failure)
        if capture_content():
            self._call.result(getattr(result, "content", result))


def begin(tool: Any, *args: Any, **kwargs: Any) -> _Observed:
    """``BaseTool.run`` or ``arun`` is called."""
    return _Observed(tool, args, kwargs)


def end(observed: _Observed, result: Any, error: BaseException | None) -> None:
    """It returned, raised or was cancelled."""
    observed.end(result, error)


def validated(refusal: Any, _: Any, call: Any, *__: Any, **___: Any) -> None:
    """After ``ToolNode._validate_tool_call``, where a tool that does not exist shows: nobody runs it."""
    if refusal is not None:
        _record_unknown(str(call["name"]), call.get("id"))


def _record_unknown(name: str, call_id: str | None) -> None:
    if not scope.enabled:
        return
    # The name is what a model made up: on the span and the event, never on a metric.
    with ToolCall(scope, name, call_id, metric_name=ErrorTypeValues.OTHER) as call:
        call.fail(UNKNOWN_TOOL)
        scope.event(events.RL_TOOL_UNKNOWN, attributes={attributes.GEN_AI_TOOL_NAME: name})
