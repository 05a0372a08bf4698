"""What ours adds to the spans of ``opentelemetry-instrumentation-genai-langchain``.

Its handler ends a tool's span in ``on_tool_end`` whatever the tool returned, and takes every exception for an error.
Both are corrected there, before the span ends and the duration is recorded; nowhere else are both still open.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from otel_rl.inference import ownership
from otel_rl.instrumentors.langchain.errors import error_in, failure_in
from otel_rl.semconv import attributes
from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

MODULE = "opentelemetry.instrumentation.genai.langchain.callback_handler"


def patch_handler(module: ModuleType, patches: Patches) -> None:
    """Patch the official callback handler."""
    handler = module.OpenTelemetryLangChainCallbackHandler
    patches.replace(handler, "on_tool_end", _tool_end)
    patches.replace(handler, "on_tool_error", functools.partial(_error, "on_tool_end"))
    patches.replace(handler, "on_chain_error", functools.partial(_error, "on_chain_end"))


def _tool_end(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def on_tool_end(self: Any, output: Any, **kwargs: Any) -> Any:
        with guard("langchain.official"):
            failure = failure_in(output)
            invocation = None if failure is None else self._invocation_manager.get_invocation(kwargs["run_id"])
            if failure is not None and invocation is not None:
                ownership.mark_error(invocation.span, failure)
                invocation.attributes[attributes.ERROR_TYPE] = failure
                invocation.metric_attributes[attributes.ERROR_TYPE] = failure
        return original(self, output, **kwargs)

    return on_tool_end


def _error(end: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """``on_*_error`` that takes control flow for an end."""

    @functools.wraps(original)
    def on_error(self: Any, error: BaseException, **kwargs: Any) -> Any:
        if error_in(error) is None:
            return getattr(self, end)(None, **kwargs)
        return original(self, error, **kwargs)

    return on_error
