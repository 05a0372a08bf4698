"""Corrects the spans of ``opentelemetry-instrumentation-genai-langchain``.

Its handler treats every tool result as success and every exception as an error. We correct both inside the handler:
only there is the span still open and the duration not yet recorded.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.langchain.errors import content_of, error_in, failure_in
from otel_rl.instrumentors.patch_functions import observing, replacing, together
from otel_rl.semconv import attributes
from otel_rl.telemetry import guard
from otel_rl.telemetry.open_spans import mark_error
from otel_rl.tools import open_tools, outcomes

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.tools.outcomes import Failure


def _finished(run: Any, error: BaseException | None = None) -> None:
    """Record a tool that ends without a callback: LangChain reports no cancellation."""
    if error is not None and run.run_id is not None and error_in(error) is not None:
        _record_failure(run.invocations.get_invocation(run.run_id), outcomes.raised(error), is_marked=True)


def _returned(handler: Any, output: Any, *, run_id: Any, **_: Any) -> None:
    _settle(handler, run_id, failure_in(output), outcomes.of_result(content_of(output)))


def _settle(
    handler: Any, run_id: Any, failure: Failure | None, outcome: str = outcomes.OK, *, is_marked: bool = False
) -> None:
    """Put the outcome on the tool's span and duration; ``is_marked`` where the handler makes it an error by itself."""
    # Neither name is public; opentelemetry-instrumentation-genai-langchain keeps the open spans there.
    _record_failure(handler._invocation_manager.get_invocation(run_id), failure, outcome, is_marked=is_marked)  # noqa: SLF001


def _record_failure(invocation: Any, failure: Failure | None, outcome: str = outcomes.OK, *, is_marked: bool) -> None:
    if type(invocation).__name__ != "ToolInvocation":
        return
    values = {attributes.RL_TOOL_OUTCOME: outcome}
    if failure is not None:
        tool = open_tools.here()
        inner = None if tool is None or failure.outcome != outcomes.TOOL_ERROR else tool.inner
        values[attributes.RL_TOOL_OUTCOME] = (inner or failure).outcome
    if failure is not None and not is_marked:
        mark_error(invocation.span, failure.kind)
        values[attributes.ERROR_TYPE] = failure.kind
    invocation.attributes.update(values)
    invocation.metric_attributes.update(values)


def _tool_error(original: Callable[..., Any]) -> Callable[..., Any]:
    """Tells the outcome of a tool that raised (replaces ``on_tool_error``)."""
    on_error = _error("on_tool_end", original)

    @functools.wraps(original)
    def on_tool_error(self: Any, error: BaseException, **kwargs: Any) -> Any:
        with guard("langchain.tool_outcome"):
            if error_in(error) is not None:
                _settle(self, kwargs.get("run_id"), outcomes.raised(error), is_marked=True)
        return on_error(self, error, **kwargs)

    return on_tool_error


def _error(end: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Treats LangGraph's control-flow exceptions as normal completion (replaces ``on_*_error``)."""

    @functools.wraps(original)
    def on_error(self: Any, error: BaseException, **kwargs: Any) -> Any:
        if error_in(error) is None:
            return getattr(self, end)(None, **kwargs)
        return original(self, error, **kwargs)

    return on_error


def _model_error(original: Callable[..., Any]) -> Callable[..., Any]:
    """Treats a stream that its reader left early as no error (replaces ``on_llm_error``)."""

    @functools.wraps(original)
    def on_llm_error(self: Any, error: BaseException, **kwargs: Any) -> Any:
        if error_in(error) is None and _stop(self, kwargs.get("run_id")):
            return None
        return original(self, error, **kwargs)

    return on_llm_error


def _stop(handler: Any, run_id: Any) -> bool:
    """End the model call without an error; True where there is one. Its own way to do so wants an answer."""
    with guard("langchain.model_error"):
        invocation = handler._invocation_manager.get_invocation(run_id)  # noqa: SLF001 - see above
        if hasattr(invocation, "stop"):
            invocation.stop()
            handler._invocation_manager.delete_invocation_state(run_id)  # noqa: SLF001
            return True
    return False


_HANDLER = "OpenTelemetryLangChainCallbackHandler"
patch_handler = together(
    observing(f"{_HANDLER}.on_tool_end", before=_returned),
    replacing(f"{_HANDLER}.on_tool_error", _tool_error),
    replacing(f"{_HANDLER}.on_chain_error", functools.partial(_error, "on_chain_end")),
    replacing(f"{_HANDLER}.on_llm_error", _model_error),
)
patch_runs = observing("_RunScope.finish", before=_finished, required=False)
