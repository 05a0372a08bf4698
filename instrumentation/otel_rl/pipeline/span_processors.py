"""Span processors of the program on our provider: one that fails costs neither our spans nor the program an error.

OpenTelemetry calls them in the thread that starts or ends a span, and they may set attributes there. So they stay in
that thread, in their order; one that is slow is measured and named, since another thread would change what it sees.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import SynchronousMultiSpanProcessor

from otel_rl.core import instrumentor_status
from otel_rl.core.guard import count_error, raised_by_signal_handler

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

#: Seconds from which on a call is slow: a step has some hundred spans.
SLOW = 0.1


class ForeignProcessor:
    """Failures and slow calls of one class of the program's span processors."""

    def __init__(self, kind: type) -> None:
        self.name = f"{kind.__module__}.{kind.__qualname__}"
        self.failed = self.slow = 0
        #: The latest trouble, in words.
        self.trouble = ""

    def note(self, method: str, seconds: float, error: Exception | None) -> None:
        """Count a call that raised ``error`` or took ``seconds``, if it did harm."""
        if error is not None:
            self.failed += 1
            count_error("span_processors", error, f"the span processor {self.name} of the program in {method}")
            self.trouble = f"{self.failed} of its calls failed, the latest with {type(error).__name__} in {method}"
        elif seconds >= SLOW:
            self.slow += 1
            self.trouble = (
                f"{self.slow} of its calls were slow, the latest took {seconds:.3g} s in the thread of a span"
            )
        else:
            return
        instrumentor_status.report(f"span processor {self.name}", instrumentor_status.DEGRADED, self.trouble)


class IsolatedSpanProcessors(SynchronousMultiSpanProcessor):
    """The processors of our provider in the order in which they were added; ours are called as the SDK would."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known: dict[type, ForeignProcessor] = {}

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Call each processor for a span that has started."""
        for processor in self._span_processors:
            if type(processor) in _ours:
                processor.on_start(span, parent_context=parent_context)
            else:
                self._call(processor, "on_start", span, parent_context=parent_context)

    def _on_ending(self, span: Span) -> None:
        for processor in self._span_processors:
            if type(processor) not in _ours:
                self._call(processor, "_on_ending", span)

    def on_end(self, span: ReadableSpan) -> None:
        """Call each processor for a span that has ended."""
        for processor in self._span_processors:
            if type(processor) in _ours:
                processor.on_end(span)
            else:
                self._call(processor, "on_end", span)

    def _call(self, processor: SpanProcessor, method: str, *arguments: Any, **named: Any) -> None:
        kind, call = type(processor), getattr(processor, method)
        if kind.__module__.startswith("otel_rl."):
            _ours.add(kind)
            call(*arguments, **named)
            return
        began, failure = time.monotonic(), None
        try:
            call(*arguments, **named)
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            failure = error
        foreign = self.known.get(kind) or self.known.setdefault(kind, ForeignProcessor(kind))
        foreign.note(method, time.monotonic() - began, failure)


#: Classes of our own processors. None of them has a part in what the SDK calls ``_on_ending``.
_ours: set[type] = set()


def isolate(provider: TracerProvider) -> None:
    """Isolate the processors of a ``provider`` that is not made here; its tracers refer to them already."""
    multi: Any = provider._active_span_processor  # noqa: SLF001 - no public way to ask
    is_of_sdk = type(multi) is SynchronousMultiSpanProcessor
    if is_of_sdk:
        multi.__class__, multi.known = IsolatedSpanProcessors, {}


def foreign_processors(provider: TracerProvider | None) -> list[ForeignProcessor]:
    """Return the program's processors of ``provider`` that have been called."""
    return list(getattr(getattr(provider, "_active_span_processor", None), "known", {}).copy().values())
