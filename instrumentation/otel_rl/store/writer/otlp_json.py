# ruff: noqa: SLF001 - the views around the SDK's dictionaries cost more than the encoding, see _fields
"""Spans and log records as OTLP JSON text.

The file store is the default destination, and its thread shares the interpreter lock with the program. The official
encoder (``opentelemetry.exporter.otlp.json.common``, SDK 1.44 and 1.45) takes three to four times as long: it makes an
object per value, encodes the resource again at each export, and hashes the resource as JSON once per item. The tests
compare each result with the official one. Metrics leave more rarely; the official encoder writes those.

Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext

#: Most texts that each table below keeps. A full one is emptied: programs may make scopes and keys without end.
_MAXIMUM_KEPT = 1024
#: Longer keys are not kept: some are made of content.
_LONGEST_KEY = 128

#: ``SpanFlags`` of the protocol: says whether the parent is known to be remote, and that it is.
_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200

#: Key of an attribute -> its text up to the value.
_keys: dict[str, str] = {}
#: id of a resource -> the resource, the attributes it had, its text. A resource of ours gets new ones with the rank.
_resources: dict[int, tuple[Resource, object, str]] = {}
#: id of a scope -> the scope, its text.
_scopes: dict[int, tuple[InstrumentationScope, str]] = {}


def encode_spans(spans: Iterable[ReadableSpan]) -> bytes:
    """One ``ExportTraceServiceRequest``.

    Raises:
        TypeError: for a value of a type that OTLP does not have.
    """
    return _request("resourceSpans", "scopeSpans", "spans", spans, _span)


def encode_logs(records: Iterable[ReadableLogRecord]) -> bytes:
    """One ``ExportLogsServiceRequest``.

    Raises:
        TypeError: for a value of a type that OTLP does not have.
    """
    return _request("resourceLogs", "scopeLogs", "logRecords", records, _log_record)


def _request(by_resource: str, by_scope: str, name: str, items: Iterable[Any], encode: Callable[[Any], str]) -> bytes:
    groups: dict[int, tuple[Resource, dict[int, tuple[InstrumentationScope | None, list[str]]]]] = {}
    for item in items:
        resource, scope = item.resource, item.instrumentation_scope
        _, scopes = groups.setdefault(id(resource), (resource, {}))
        scopes.setdefault(id(scope), (scope, []))[1].append(encode(item))
    resources = [
        f'{{"resource":{_resource(resource)},"{by_scope}":['
        + ",".join(
            f'{{"scope":{_scope(scope)},"{name}":[{",".join(texts)}]{_schema_url(scope)}}}'
            for scope, texts in scopes.values()
        )
        + f"]{_schema_url(resource)}}}"
        for resource, scopes in groups.values()
    ]
    return f'{{"{by_resource}":[{",".join(resources)}]}}'.encode("ascii")


def _keep(table: dict[Any, Any], key: object, value: Any) -> None:
    if len(table) >= _MAXIMUM_KEPT:
        table.clear()
    table[key] = value


def _resource(resource: Resource) -> str:
    values = resource.attributes
    known = _resources.get(id(resource))
    if known is not None and known[0] is resource and known[1] is values:
        return known[2]
    text = "{" + _attributes(values).removeprefix(",") + "}"
    _keep(_resources, id(resource), (resource, values, text))
    return text


def _scope(scope: InstrumentationScope | None) -> str:
    if scope is None:
        return "{}"
    known = _scopes.get(id(scope))
    if known is not None and known[0] is scope:
        return known[1]
    members = (
        _text("name", scope.name)
        + _text("version", scope.version and str(scope.version))
        + _attributes(scope.attributes)
    )
    text = "{" + members.removeprefix(",") + "}"
    _keep(_scopes, id(scope), (scope, text))
    return text


def _schema_url(owner: Resource | InstrumentationScope | None) -> str:
    url = owner.schema_url if owner is not None else None
    return _text("schemaUrl", url and str(url))


def _span(span: ReadableSpan) -> str:
    own = span.context
    trace, identity = (own.trace_id, own.span_id) if own is not None else (0, 0)
    state = own.trace_state.to_header() if own is not None and own.trace_state else ""
    parent, status = span.parent, span.status
    # UNSET is zero, which JSON leaves out.
    code = f'"code":{status.status_code.value}' if status.status_code.value else ""
    message = f'{"," if code else ""}"message":{_quoted(status.description)}' if status.description else ""
    return "".join(
        (
            f'{{"traceId":"{trace:032x}","spanId":"{identity:016x}"',
            _text("traceState", state),
            f',"parentSpanId":"{parent.span_id:016x}"' if parent is not None else "",
            f',"flags":{_flags(parent)}',
            _text("name", span.name),
            f',"kind":{span.kind.value + 1}',
            f',"startTimeUnixNano":"{span.start_time}"' if span.start_time else "",
            f',"endTimeUnixNano":"{span.end_time}"' if span.end_time else "",
            _attributes(span._attributes),
            _dropped("Attributes", span.dropped_attributes),
            _list("events", [_event(event) for event in span.events]),
            _dropped("Events", span.dropped_events),
            _list("links", [_link(link) for link in span.links]),
            _dropped("Links", span.dropped_links),
            f',"status":{{{code}{message}}}}}',
        )
    )


def _flags(context: SpanContext | None) -> int:
    return _HAS_IS_REMOTE | _IS_REMOTE if context is not None and context.is_remote else _HAS_IS_REMOTE


def _event(event: Any) -> str:
    time = f',"timeUnixNano":"{event.timestamp}"' if event.timestamp else ""
    dropped = _dropped("Attributes", event.dropped_attributes)
    members = time + _text("name", event.name) + _attributes(event.attributes) + dropped
    return "{" + members.removeprefix(",") + "}"


def _link(link: Any) -> str:
    own = link.context
    dropped = _dropped("Attributes", link.dropped_attributes)
    ids = f'"traceId":"{own.trace_id:032x}","spanId":"{own.span_id:016x}","flags":{_flags(own)}'
    return f"{{{ids}{_attributes(link.attributes)}{dropped}}}"


def _log_record(readable: ReadableLogRecord) -> str:
    record = readable.log_record
    severity = getattr(record.severity_number, "value", record.severity_number) or 0
    flags = int(record.trace_flags) if record.trace_flags is not None else 0
    return "".join(
        (
            f'{{"body":{_value(record.body)}',
            f',"timeUnixNano":"{record.timestamp}"' if record.timestamp else "",
            f',"observedTimeUnixNano":"{record.observed_timestamp}"' if record.observed_timestamp else "",
            f',"severityNumber":{severity}' if severity else "",
            _text("severityText", record.severity_text),
            _attributes(record.attributes),
            _dropped("Attributes", readable.dropped_attributes),
            f',"flags":{flags}' if flags else "",
            f',"traceId":"{record.trace_id:032x}"' if record.trace_id else "",
            f',"spanId":"{record.span_id:016x}"' if record.span_id else "",
            _text("eventName", record.event_name),
            "}",
        )
    )


def _text(name: str, value: Any) -> str:
    """Return a member with a comma before it; nothing where there is no text, as in protobuf."""
    return f',"{name}":{_quoted(value)}' if value else ""


def _dropped(what: str, number: int) -> str:
    return f',"dropped{what}Count":{number}' if number else ""


def _list(name: str, texts: list[str]) -> str:
    return f',"{name}":[{",".join(texts)}]' if texts else ""


def _attributes(values: Mapping[str, Any] | None) -> str:
    """Return the member ``attributes`` with a comma before it; nothing where there are none."""
    if not values:
        return ""
    return _list("attributes", [_key_value(key, value) for key, value in _fields(values).items()])


def _fields(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the dictionary inside ``BoundedAttributes``, whose views run Python per item (SDK 1.44 and 1.45)."""
    fields = getattr(values, "_dict", None)
    return fields if type(fields) is dict else values


def _key_value(key: str, value: Any) -> str:
    prefix = _keys.get(key)
    if prefix is None:
        prefix = f'{{"key":{_quoted(key)},"value":'
        if len(key) <= _LONGEST_KEY:
            _keep(_keys, key, prefix)
    if type(value) is str:
        return f'{prefix}{{"stringValue":{_quoted(value)}}}}}'
    return f"{prefix}{_value(value)}}}"


def _value(value: Any) -> str:  # noqa: PLR0911 - one kind of value each
    if value is None:
        return "{}"
    if isinstance(value, bool):
        return '{"boolValue":true}' if value else '{"boolValue":false}'
    if isinstance(value, str):
        return f'{{"stringValue":{_quoted(value)}}}'
    if isinstance(value, int):
        return f'{{"intValue":"{int(value)}"}}'
    if isinstance(value, float):
        return f'{{"doubleValue":{_double(value)}}}'
    if isinstance(value, bytes):
        return f'{{"bytesValue":"{base64.b64encode(value).decode("ascii")}"}}'
    if isinstance(value, Sequence):
        texts = _same_kind(value) or ",".join(map(_value, value))
        return f'{{"arrayValue":{{"values":[{texts}]}}}}' if texts else '{"arrayValue":{}}'
    if isinstance(value, Mapping):
        # Keys of content are the program's: there is no end of them.
        texts = ",".join([f'{{"key":{_quoted(str(key))},"value":{_value(item)}}}' for key, item in value.items()])
        return f'{{"kvlistValue":{{"values":[{texts}]}}}}' if texts else '{"kvlistValue":{}}'
    raise TypeError(f"OTLP has no values of type {type(value).__name__}")


def _same_kind(values: Sequence[Any]) -> str:
    """Return the texts of values that are all of one kind, as in a column of many rows; empty where they are not."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return ""
    write = _WRITERS.get(kinds.pop())
    if write is None:
        return ""
    before, after, text = write
    if text is _double and all(map(math.isfinite, values)):
        text = float.__repr__
    return before + f"{after},{before}".join(map(text, values)) + after


def _double(value: float) -> str:
    if math.isfinite(value):
        return float.__repr__(value)
    # JSON has no such numbers; the mapping of protobuf writes them as text.
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


#: Type of a value -> what stands before and after its text, and what writes that.
_WRITERS: dict[type, tuple[str, str, Callable[[Any], str]]] = {
    str: ('{"stringValue":', "}", _quoted),
    int: ('{"intValue":"', '"}', str),
    float: ('{"doubleValue":', "}", _double),
    bool: ('{"boolValue":', "}", {False: "false", True: "true"}.__getitem__),
}
