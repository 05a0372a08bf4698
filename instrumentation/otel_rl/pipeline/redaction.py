"""Calls the user's redaction function on what others record: exception text of any span, foreign content.

Our own content and exception text have passed it before they were cut, see :mod:`otel_rl.telemetry.redaction`. Both
processors run before every exporter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk._logs import LogRecordProcessor
from opentelemetry.sdk.trace import Event, SpanProcessor
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Status

from otel_rl.internal_errors import guard
from otel_rl.semconv import SCHEMA_URL, attributes
from otel_rl.telemetry import drops, redaction
from otel_rl.telemetry.attribute_values import plain_content

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

    from opentelemetry.sdk._logs import ReadWriteLogRecord
    from opentelemetry.sdk.trace import ReadableSpan

_EXCEPTION = frozenset({attributes.EXCEPTION_MESSAGE, attributes.EXCEPTION_STACKTRACE})
_CONTENT = frozenset(attributes.CONTENT)


class RedactingSpanProcessor(SpanProcessor):
    """Redacts exception text in events and status of every span, and content attributes of foreign instrumentors.

    What must be redacted is removed first, so that an error of ours lets nothing pass.
    """

    def on_end(self, span: ReadableSpan) -> None:
        """Change what the exporters will see of the ended span, which is a copy of the program's."""
        with guard("redaction.span"):
            if any(not _EXCEPTION.isdisjoint(event.attributes or {}) for event in span.events):
                events, span._events = span.events, ()  # noqa: SLF001 - an ended span has no setters
                span._events = _events(events, span.dropped_events)  # noqa: SLF001
            values, status = span.attributes or {}, span.status
            if status.description and status.description != values.get(attributes.ERROR_TYPE):
                span._status = Status(status.status_code)  # noqa: SLF001
                span._status = Status(status.status_code, redaction.text(status.description, "traces"))  # noqa: SLF001
            if not _is_ours(span.instrumentation_scope) and not _CONTENT.isdisjoint(values):
                span._attributes = {}  # noqa: SLF001
                span._attributes = _bounded(values, _CONTENT)  # noqa: SLF001


class RedactingLogRecordProcessor(LogRecordProcessor):
    """Redacts body, content and exception text of the log records of foreign instrumentors."""

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Change the record in place."""
        if _is_ours(log_record.instrumentation_scope):
            return
        record = log_record.log_record
        body, record.body = record.body, None
        with guard("redaction.log_record"):
            _redact_values(record.attributes, _CONTENT | _EXCEPTION)  # type: ignore[arg-type]  # mutable in a new record
            try:
                record.body = plain_content(body, redact=redaction.redact())
            except redaction.Dropped as dropped:
                drops.count("logs", str(dropped))

    def shutdown(self) -> None:
        """Holds nothing."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is buffered."""
        return True


def _is_ours(scope: Any) -> bool:
    # Our scopes and the program's log, which have called the function before they cut a text.
    return scope is not None and scope.schema_url == SCHEMA_URL


def _events(events: Sequence[Event], dropped: int) -> BoundedList[Event]:
    redacted: BoundedList[Event] = BoundedList(max(len(events), 1))
    redacted.extend([Event(one.name, _bounded(one.attributes or {}, _EXCEPTION), one.timestamp) for one in events])
    redacted.dropped = dropped
    return redacted


def _bounded(values: Mapping[str, Any], keys: frozenset[str]) -> BoundedAttributes:
    """``values`` with the texts of ``keys`` redacted, or without them."""
    kept = dict(values)
    _redact_values(kept, keys, "traces")
    result = BoundedAttributes(attributes=kept, immutable=True)
    result.dropped = getattr(values, "dropped", 0)
    return result


def _redact_values(values: MutableMapping[str, Any] | None, keys: frozenset[str], signal: str = "logs") -> None:
    if not values:
        return
    texts = {key: str(values.pop(key)) for key in keys & values.keys()}
    for key, found in texts.items():
        text = redaction.text(found, signal)
        if text is not None:
            values[key] = text
