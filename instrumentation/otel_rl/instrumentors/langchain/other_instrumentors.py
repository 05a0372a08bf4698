"""Other instrumentors that record LangChain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.inference import ownership
from otel_rl.instrumentors.coexistence import is_active

if TYPE_CHECKING:
    from collections.abc import Callable

_OTHERS = (
    ("opentelemetry.instrumentation.genai.langchain", "LangChainInstrumentor"),
    ("opentelemetry.instrumentation.langchain", "LangchainInstrumentor"),
    ("openinference.instrumentation.langchain", "LangChainInstrumentor"),
)


def is_taken() -> bool:
    """Return whether the official instrumentor, traceloop's or OpenInference's is active."""
    return any(is_active(module, name) for module, name in _OTHERS)


#: Module of a handler that records model calls without making its span current -> how it keeps the span of a run.
_SPANS: dict[str, Callable[[Any, Any], Any]] = {
    # openinference-instrumentation-langchain 0.1.80, OpenInferenceTracer.get_span
    "openinference.instrumentation.langchain._tracer": lambda handler, run_id: handler.get_span(run_id),
    # opentelemetry-instrumentation-langchain 0.62.4, TraceloopCallbackHandler.spans
    "opentelemetry.instrumentation.langchain.callback_handler": lambda handler, run_id: handler.spans[run_id].span,
}


def announce_model_call(run_managers: Any, *_: Any, **__: Any) -> None:
    """After ``on_chat_model_start`` or ``on_llm_start``: the calls that follow belong to the span of the run."""
    if not isinstance(run_managers, list) or len(run_managers) != 1:
        return  # of several runs at once it does not show which one a call belongs to
    manager = run_managers[0]
    for handler in manager.handlers:
        span_of = _SPANS.get(type(handler).__module__)
        span = None if span_of is None else span_of(handler, manager.run_id)
        if span is not None:
            ownership.announce(span)
