"""An engine's own tracer beside ours: what it would have exported still goes where the user sent it.

Engines set a tracer provider of their own for the endpoint that they are given, and ask the global one for tracers.
Ours is set already then. The SDK would refuse the second with a line in the program's log, and the endpoint would get
nothing. So the name of the API's function is replaced, in the engine's module only: programs set their providers by the
original.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider

from otel_rl.telemetry import guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from opentelemetry.sdk.trace import ReadableSpan

    from otel_rl.instrumentors.patching import Patches

_GUARD = guard("engine_tracers")


class EngineSpans(SpanProcessor):
    """Hands the spans of an engine's scopes on to the provider that the engine has made for them."""

    def __init__(self, engine: str, provider: SdkTracerProvider) -> None:
        self._engine = engine
        self._processor: Any = provider._active_span_processor  # noqa: SLF001 - there is no public way

    def on_end(self, span: ReadableSpan) -> None:
        """Hand it on; the engine's provider exports and shuts down by itself."""
        scope = span.instrumentation_scope
        # "vllm.tracing.otel", "sglang server".
        if scope is not None and scope.name.replace(" ", ".").partition(".")[0] == self._engine:
            self._processor.on_end(span)


def setter(engine: str, original: Callable[[Any], None], *, exports_there_already: bool) -> Callable[[Any], None]:
    """Return the ``set_tracer_provider`` of an engine; nothing is added if our exporter uses the engine's endpoint."""

    def set_tracer_provider(provider: Any) -> None:
        with _GUARD:
            ours = trace_api._TRACER_PROVIDER  # noqa: SLF001 - get_tracer_provider() would create one
            if isinstance(ours, SdkTracerProvider) and isinstance(provider, SdkTracerProvider):
                if exports_there_already:
                    return
                if not _has_engine_spans(ours):
                    ours.add_span_processor(EngineSpans(engine, provider))
                    return
        # Without us the provider of a second engine is refused, with a line in the log: the first one has all spans.
        original(provider)

    return set_tracer_provider


def replace(module: ModuleType, name: str, replacement: Any, patches: Patches) -> None:
    """Replace a name in this module only."""
    original = getattr(module, name)
    setattr(module, name, replacement)

    def put_back() -> None:
        if getattr(module, name) is replacement:
            setattr(module, name, original)

    patches.on_restore(put_back)


def _has_engine_spans(provider: SdkTracerProvider) -> bool:
    processors = getattr(provider._active_span_processor, "_span_processors", ())  # noqa: SLF001 - as above
    return any(isinstance(processor, EngineSpans) for processor in processors)
