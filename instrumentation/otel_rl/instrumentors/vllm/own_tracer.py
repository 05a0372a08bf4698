"""vLLM's own tracer beside ours: what it would have exported still goes where the user sent it.

With ``--otlp-traces-endpoint`` vLLM sets a tracer provider of its own, and asks the global one for its tracers. Ours is
set already then. The SDK would refuse the second with a line in the program's log, and the endpoint would get nothing.
https://github.com/vllm-project/vllm/blob/v0.19.0/vllm/tracing/otel.py (``init_otel_tracer``)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider

from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from types import ModuleType

    from opentelemetry.sdk.trace import ReadableSpan

    from otel_rl.instrumentors.patching import Patches

_NAME = "set_tracer_provider"
_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_GUARD = guard("vllm.own_tracer")


class EngineSpans(SpanProcessor):
    """Hands the spans of vLLM's scopes on to the provider that vLLM has made for them."""

    def __init__(self, provider: SdkTracerProvider) -> None:
        self._processor: Any = provider._active_span_processor  # noqa: SLF001 - there is no public way

    def on_end(self, span: ReadableSpan) -> None:
        """Hand it on; vLLM's provider exports and shuts down by itself."""
        scope = span.instrumentation_scope
        if scope is not None and scope.name.partition(".")[0] == "vllm":
            self._processor.on_end(span)


def patch_tracing(module: ModuleType, patches: Patches) -> None:
    """Replace the name in this module only: programs set providers of their own by the original."""
    original = getattr(module, _NAME, None)
    if original is None:
        patches.missing.append(f"{module.__name__}.{_NAME}")
        return
    # In a child process of vLLM it is set: our own exporter goes to the endpoint there.
    exports_there_already = bool(os.environ.get(_ENDPOINT))

    def set_tracer_provider(provider: Any) -> None:
        with _GUARD:
            ours = trace_api._TRACER_PROVIDER  # noqa: SLF001 - get_tracer_provider() would create one
            if isinstance(ours, SdkTracerProvider) and isinstance(provider, SdkTracerProvider):
                if exports_there_already:
                    return
                if not _has_engine_spans(ours):
                    ours.add_span_processor(EngineSpans(provider))
                    return
        # Without us the provider of a second engine is refused, with a line in the log: the first one has all spans.
        original(provider)

    setattr(module, _NAME, set_tracer_provider)
    patches.on_restore(lambda: _put_back(module, set_tracer_provider, original))


def _has_engine_spans(provider: SdkTracerProvider) -> bool:
    processors = getattr(provider._active_span_processor, "_span_processors", ())  # noqa: SLF001 - as above
    return any(isinstance(processor, EngineSpans) for processor in processors)


def _put_back(module: ModuleType, ours: Any, original: Any) -> None:
    if getattr(module, _NAME) is ours:
        setattr(module, _NAME, original)
