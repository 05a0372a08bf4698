"""SDK processors in front of our queues, and the mark on attributes that were cut."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordProcessor, ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor

from otel_rl.core import settings
from otel_rl.core.guard import guard
from otel_rl.telemetry import sampling
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH, PlainBody, longest, plain

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadWriteLogRecord
    from opentelemetry.sdk.trace import ReadableSpan

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
