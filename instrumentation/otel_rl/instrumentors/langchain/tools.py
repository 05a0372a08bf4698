"""Tool calls: wrapped around the tool, so that what its body does nests below it, and cancellation is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.langchain import other_instrumentors, runs
from otel_rl.instrumentors.langchain.errors import content_of, error_in, failure_in, is_message
from otel_rl.telemetry import Scope, guard, open_trajectory
from otel_rl.telemetry.content_capture import capture_content
from otel_rl.telemetry.context import attach, detach
from otel_rl.tools import calls, open_tools
from otel_rl.tools.attempts import Attempt
from otel_rl.tools.calls import ToolCall
from otel_rl.tools.open_tools import OpenTool

if TYPE_CHECKING:
    from contextvars import Token

scope = Scope("langchain")


class _Observed:
    """One run of a tool; keeps the context of the node above it while the tool runs."""

    __slots__ = ("_attached", "_attempt", "_call", "_tool")

    def __init__(self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._call: ToolCall | None = None
        self._attached: Token[Any] | None = None
        #: What the call is counted in where the span is that of another instrumentor.
        self._attempt: Attempt | None = None
        self._tool: OpenTool | None = None
        with guard("langchain.tool_start"):
            if not scope.enabled:
                return
            arguments = args[0] if args else kwargs.get("tool_input")
            if other_instrumentors.is_taken():
                trajectory = open_trajectory.current()
                if trajectory is not None:
                    self._attempt = Attempt(trajectory, tool.name, arguments, call_id=kwargs.get("tool_call_id"))
                self._tool = OpenTool(tool.name, scope.name, is_measured=False)
                self._attached = attach(open_tools.context_with(self._tool))
                return
            parent = runs.open_run(getattr(kwargs.get("callbacks"), "parent_run_id", None))
            context = runs.context_below(parent)
            if context is not None:
                self._attached = attach(context)
            self._call = ToolCall(scope, tool.name, kwargs.get("tool_call_id"), arguments=arguments).start()

    def end(self, result: Any = None, error: BaseException | None = None) -> None:
        # Whatever the result does when it is looked at, the context of the tool must not outlive it.
        with guard("langchain.tool_result"):
            self._note(result, error)
        with guard("langchain.tool_end"):
            if self._call is not None:
                self._call.end(error_in(error))
            if self._tool is not None:
                open_tools.ended(self._tool, failed=error is not None)
            detach(self._attached)

    def _note(self, result: Any, error: BaseException | None) -> None:
        failure = failure_in(result) if error is None else None
        if self._attempt is not None:
            self._attempt.returned(content_of(result))
            self._attempt.ended(failed=failure is not None or error_in(error) is not None)
        if self._call is None or error is not None:
            return
        if failure is not None:
            self._call.fail(failure)
        # Where no content is wanted, only of a message: the content of something else may be anything.
        is_shown = capture_content() or is_message(result)
        self._call.result(getattr(result, "content", result) if is_shown else result)


def begin(tool: Any, *args: Any, **kwargs: Any) -> _Observed:
    """``BaseTool.run`` or ``arun`` is called."""
    return _Observed(tool, args, kwargs)


def end(observed: _Observed, result: Any, error: BaseException | None) -> None:
    """End the call: it returned, raised or was cancelled."""
    observed.end(result, error)


def validated(refusal: Any, _: Any, call: Any, *__: Any, **___: Any) -> None:
    """After ``ToolNode._validate_tool_call``, where a tool that does not exist shows: nobody runs it."""
    if refusal is not None:
        calls.record_unknown(scope, str(call["name"]), call.get("id"))
