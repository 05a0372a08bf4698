"""SDK processors in front of our queues, the mark on attributes that were cut, and span processors of the program.

One of the program's that fails costs neither our spans nor the program an error. OpenTelemetry calls them in the thread
that starts or ends a span, and they may set attributes there. So they stay in that thread, in their order; one that is
slow is measured and named, since another thread would change what it sees.
"""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordProcessor, ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, SynchronousMultiSpanProcessor

from otel_rl.core import instrumentor_status, settings
from otel_rl.core.guard import count_error, guard, raised_by_signal_handler
from otel_rl.telemetry import sampling
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH, PlainBody, longest, plain

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadWriteLogRecord
    from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider

    from otel_rl.pipeline.batching import BatchQueue

_SECONDS = 1000.0
#: The SDK cuts without a trace; one character more than our limit shows us which values it has cut.
SDK_LENGTH_LIMIT = MAXIMUM_LENGTH + 1


def sdk_length_limit() -> int:
    """Return the limit for the SDK, where the user may want longer content."""
    return max(SDK_LENGTH_LIMIT, settings.current().content_length + 1)


_MARKER = "... [truncated]"
#: Of a log record.
_USUAL_CHARACTERS = 512


class QueueSpanProcessor(SpanProcessor):
    """Hands sampled spans to a :class:`BatchQueue`."""

    def __init__(self, queue: BatchQueue[ReadableSpan]) -> None:
        self._queue = queue

    def on_end(self, span: ReadableSpan) -> None:
        """Queue the span, unless it is one of a rollout that is held."""
        if span.context is not None and span.context.trace_flags.sampled:
            hold = sampling.hold
            if hold is None or not hold(span, self._queue.emit):
                self._queue.emit(span)

    def shutdown(self) -> None:
        """Deliver what there is: the program shuts its provider down."""
        self._queue.force_flush(settings.current().exit_timeout)

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Deliver what is queued."""
        return self._queue.force_flush(timeout_millis / _SECONDS)


class QueueLogRecordProcessor(LogRecordProcessor):
    """Hands log records to a :class:`BatchQueue`."""

    def __init__(self, queue: BatchQueue[ReadableLogRecord]) -> None:
        self._queue = queue

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Queue a copy without the context, which may hold anything the program put there."""
        record = copy.copy(log_record.log_record)
        record.context = Context()
        body, record.body = record.body, None
        with guard("processors.body"):
            # One of ours is plain, and has bounds of its own: a second look would take time, and cut what is long.
            record.body = body if type(body) is PlainBody else plain(body)
        self._queue.emit(
            ReadableLogRecord(
                log_record=record,
                resource=log_record.resource or Resource.get_empty(),
                instrumentation_scope=log_record.instrumentation_scope,
                limits=log_record.limits,
            )
        )

    def shutdown(self) -> None:
        """Deliver what there is: the program shuts its provider down."""
        self._queue.force_flush(settings.current().exit_timeout)

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Deliver what is queued."""
        return self._queue.force_flush(timeout_millis / _SECONDS)


def weight(record: ReadableLogRecord) -> int:
    """Return as how many usual records this one counts in a batch: requests and lines of files have bounds too."""
    body = record.log_record.body
    return 1 + body.characters // _USUAL_CHARACTERS if type(body) is PlainBody else 1


def mark_truncation(span: ReadableSpan) -> None:
    """Make visible where the SDK has cut a long attribute of anybody's ended span; run on the exporting thread."""
    values = span.attributes or {}
    cut = {
        key: value[: longest(key) - len(_MARKER)] + _MARKER
        for key, value in values.items()
        if type(value) is str and len(value) > MAXIMUM_LENGTH and len(value) > longest(key)
    }
    if cut:
        # An ended span cannot be changed any more; what will be exported is this mapping.
        marked = BoundedAttributes(attributes={**values, **cut}, immutable=True)
        marked.dropped = span.dropped_attributes
        span._attributes = marked  # noqa: SLF001


#: Seconds from which on a call of the program's is slow: a step has some hundred spans.
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
            if self.slow == 1:
                # A machine that stands still for a moment.
                return
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
        self._has_ended = False

    def shutdown(self) -> None:
        """Shut all down: the program ends its provider."""
        self._has_ended = True
        super().shutdown()

    def end_foreign(self) -> None:
        """Shut down those of the program at its exit, as a provider of the SDK does: they may hold spans."""
        for processor in () if self._has_ended else self._span_processors:
            if not type(processor).__module__.startswith("otel_rl."):
                self._call(processor, "shutdown")
        self._has_ended = True

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
        kind = type(processor)
        if kind.__module__.startswith("otel_rl."):
            _ours.add(kind)
            getattr(processor, method)(*arguments, **named)
            return
        began, failure = time.monotonic(), None
        try:
            getattr(processor, method)(*arguments, **named)
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            failure = error
        foreign = self.known.get(kind) or self.known.setdefault(kind, ForeignProcessor(kind))
        foreign.note(method, time.monotonic() - began, failure)


#: Classes of our own processors. None of them has a part in what the SDK calls ``_on_ending``.
_ours: set[type] = set()


def isolate_processors(provider: TracerProvider) -> None:
    """Isolate the processors of a ``provider`` that is not made here; its tracers refer to them already."""
    multi: Any = provider._active_span_processor  # noqa: SLF001 - no public way to ask
    is_of_sdk = type(multi) is SynchronousMultiSpanProcessor
    if is_of_sdk:
        multi.__class__, multi.known, multi._has_ended = IsolatedSpanProcessors, {}, False  # noqa: SLF001


def foreign_processors(provider: TracerProvider | None) -> list[ForeignProcessor]:
    """Return the program's processors of ``provider`` that have been called."""
    return list(getattr(getattr(provider, "_active_span_processor", None), "known", {}).copy().values())
