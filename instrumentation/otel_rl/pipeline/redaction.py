"""Calls the user's redaction function on what others record: exception text of any span, foreign content.

Our own content and exception text have passed it before they were cut, see :mod:`otel_rl.telemetry.redaction`. Both
processors run before every exporter. ``docs/content.md`` lists the names that count as content.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk._logs import LogRecordProcessor
from opentelemetry.sdk.trace import Event, SpanProcessor
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Link, Status

from otel_rl.core.guard import guard
from otel_rl.semconv import SCHEMA_URL, attributes
from otel_rl.telemetry import drops, redaction
from otel_rl.telemetry.attribute_values import plain_content
from otel_rl.telemetry.content_capture import LONGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence

    from opentelemetry.sdk._logs import ReadWriteLogRecord
    from opentelemetry.sdk.trace import ReadableSpan

_EXCEPTION = frozenset({attributes.EXCEPTION_MESSAGE, attributes.EXCEPTION_STACKTRACE})
_CONTENT = frozenset(attributes.CONTENT)
#: Content under names that the conventions do not have, or no longer: those of opentelemetry-semantic-conventions-ai
#: 0.5.1 (OpenLLMetry), openinference-semantic-conventions 0.1.42 and langfuse 5.0.4. The kind or role of a message is
#: not content.
_OTHER_CONTENT = re.compile(
    r"(?!(?!.*variables)(.*\.)\d+\.(.*\.)?(role|type|mime_type|finish_reason|vector)$)("
    r"gen_ai\.(prompt|completion)(\.\d.*)?"
    r"|gen_ai\.(task\.(input|output)|content\.completion\.chunk|event\.content)"
    r"|gen_ai\.retrieval\.(query\.text|documents)"
    r"|llm\.(input_messages|output_messages|prompts|completions|choices|tools|function_call)(\..*)?"
    r"|llm\.(prompt_template|request\.functions)(\..*)?|llm\.content\.completion\.chunk"
    r"|(input|output)\.(value|images|documents)(\..*)?"
    r"|traceloop\.(entity\.(input|output)|prompt\.(template|template_variables)(\..*)?)"
    r"|langfuse\.(observation|trace)\.(input|output|status_message|metadata(\..*)?)"
    r"|langfuse\.experiment\.item\.(expected_output|metadata(\..*)?)"
    r"|(retrieval\.documents|reranker\.(query|input_documents|output_documents))(\..*)?"
    r"|embedding\.(embeddings(\..*)?|text)|tool\.(parameters|json_schema)"
    r"|mcp\.(request\.argument|response\.value)"
    r"|db\.(query|search)\.result\.(document|metadata|entity)|db\.marqo\.search\.query|pinecone\.query\.queries"
    r"|(.*\.)?(annotation|evaluation)\.explanation"
    r")",
    re.DOTALL,  # a name may have a line break
)
#: Events that are messages, and the attributes that hold their content.
_MESSAGE_EVENT = re.compile(r"gen_ai\.((system|user|assistant|tool)\.message|choice)")
_OF_MESSAGE = frozenset({"content", "message", "tool_calls", "arguments"})


class RedactingSpanProcessor(SpanProcessor):
    """Redacts exception text in events and status of every span, and content attributes of foreign instrumentors.

    What must be redacted is removed first, so that an error of ours lets nothing pass.
    """

    def on_end(self, span: ReadableSpan) -> None:
        """Change what the exporters will see of the ended span, which is a copy of the program's."""
        with guard("redaction.span"):
            if any(any(map(_of_event(event.name), event.attributes or {})) for event in span.events):
                events, span._events = span.events, ()  # noqa: SLF001 - an ended span has no setters
                span._events = _events(events, span.dropped_events)  # noqa: SLF001
            if any(any(map(_is_content, link.attributes or {})) for link in span.links):
                links, span._links = span.links, ()  # noqa: SLF001
                span._links = _links(links, span.dropped_links)  # noqa: SLF001
            values, status = span.attributes or {}, span.status
            if status.description and status.description != values.get(attributes.ERROR_TYPE):
                span._status = Status(status.status_code)  # noqa: SLF001
                span._status = Status(status.status_code, redaction.text(status.description, "traces"))  # noqa: SLF001
            # Ours never have another name than the conventions', but others may write on our spans.
            is_content = _is_other_content if _is_ours(span.instrumentation_scope) else _is_content
            if any(map(is_content, values)):
                span._attributes = {}  # noqa: SLF001
                span._attributes = _bounded(values, is_content)  # noqa: SLF001


class RedactingLogRecordProcessor(LogRecordProcessor):
    """Redacts body, content and exception text of the log records of foreign instrumentors."""

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Change the record in place."""
        if _is_ours(log_record.instrumentation_scope):
            return
        record = log_record.log_record
        body, record.body = record.body, None
        with guard("redaction.log_record"):
            is_content = _of_event(record.event_name or "")
            _redact_values(record.attributes, is_content)  # type: ignore[arg-type]  # mutable in a new record
            record.body = _redacted(body, "logs")

    def shutdown(self) -> None:
        """Do nothing: it holds nothing."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is buffered."""
        return True


def _is_ours(scope: Any) -> bool:
    # Our scopes and the program's log, which have called the function before they cut a text.
    return scope is not None and scope.schema_url == SCHEMA_URL


@lru_cache(maxsize=1024)
def _is_other_content(key: str) -> bool:
    return _OTHER_CONTENT.fullmatch(key) is not None


def _is_content(key: str) -> bool:
    return key in _CONTENT or _is_other_content(key)


def _is_text_of_event(key: str) -> bool:
    return key in _EXCEPTION or _is_content(key)


def _is_text_of_message(key: str) -> bool:
    return key in _OF_MESSAGE or _is_text_of_event(key)


def _of_event(name: str) -> Callable[[str], bool]:
    """Says of an attribute of an event, of a span or a log record, whether it has to pass the function."""
    return _is_text_of_message if _MESSAGE_EVENT.fullmatch(name) else _is_text_of_event


def _events(events: Sequence[Event], dropped: int) -> BoundedList[Event]:
    redacted: BoundedList[Event] = BoundedList(max(len(events), 1))
    redacted.extend(
        [
            Event(event.name, _bounded(event.attributes or {}, _of_event(event.name)), event.timestamp)
            for event in events
        ]
    )
    redacted.dropped = dropped
    return redacted


def _links(links: Sequence[Link], dropped: int) -> BoundedList[Link]:
    redacted: BoundedList[Link] = BoundedList(max(len(links), 1))
    redacted.extend([Link(link.context, _bounded(link.attributes or {}, _is_content)) for link in links])
    redacted.dropped = dropped
    return redacted


def _bounded(values: Mapping[str, Any], is_redacted: Callable[[str], bool]) -> BoundedAttributes:
    """``values`` with those redacted whose key says so, or without them."""
    kept = dict(values)
    _redact_values(kept, is_redacted, "traces")
    result = BoundedAttributes(attributes=kept, immutable=True)
    result.dropped = getattr(values, "dropped", 0)
    return result


def _redact_values(
    values: MutableMapping[str, Any] | None, is_redacted: Callable[[str], bool], signal: str = "logs"
) -> None:
    if not values:
        return
    # All are taken out before the function is called the first time.
    taken = {key: values.pop(key) for key in list(values) if is_redacted(key)}
    for key, value in taken.items():
        redacted = _redacted(value, signal)
        if redacted is not None:
            values[key] = redacted


def _redacted(value: Any, signal: str) -> Any:
    """``value`` with its texts redacted and its structure kept; None, and a count, where it must not pass."""
    if isinstance(value, str):
        return redaction.text(value, signal)
    try:
        redacted = plain_content(value, LONGEST, redact=redaction.redact())
    except redaction.Dropped as dropped:
        drops.count(signal, str(dropped))
        return None
    if signal == "traces" and isinstance(redacted, list) and len(set(map(type, redacted))) > 1:
        # A sequence of numbers in which a text has come: attributes of spans hold one type.
        return [str(item) for item in redacted]
    return redacted
