"""Corrects the spans of ``opentelemetry-instrumentation-genai-langchain``.

Its handler treats every tool result as success and every exception as an error. We correct both inside the handler:
only there is the span still open and the duration not yet recorded.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.langchain.errors import error_in, failure_in
from otel_rl.semconv import attributes
from otel_rl.telemetry import guard
from otel_rl.telemetry.open_spans import mark_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


def patch_handler(module: ModuleType, patches: Patches) -> None:
    """Patch the official callback handler."""
    handler = "OpenTelemetryLangChainCallbackHandler"
    patches.observe(module, f"{handler}.on_tool_end", before=_mark_failure, required=True)
    patches.replace(module, f"{handler}.on_tool_error", functools.partial(_error, "on_tool_end"), required=True)
    patches.replace(module, f"{handler}.on_chain_error", functools.partial(_error, "on_chain_end"), required=True)
    patches.replace(module, f"{handler}.on_llm_error", _model_error, required=True)


def _mark_failure(handler: Any, output: Any, *, run_id: Any, **_: Any) -> None:
    failure = failure_in(output)
    # Neither name is public; opentelemetry-instrumentation-genai-langchain keeps the open spans there.
    invocation = None if failure is None else handler._invocation_manager.get_invocation(run_id)  # noqa: SLF001
    if failure is not None and invocation is not None:
        mark_error(invocation.span, failure)
        invocation.attributes[attributes.ERROR_TYPE] = failure
        invocation.metric_attributes[attributes.ERROR_TYPE] = failure


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
