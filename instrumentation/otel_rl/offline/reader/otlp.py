"""Decodes OTLP JSON (``ExportTraceServiceRequest`` and its siblings) into records.

Follows the OTLP JSON encoding: 64-bit integers may be strings, ids are hex, doubles may be ``"NaN"`` or
``"Infinity"``, default values are left out, unknown fields are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.offline.reader.records import Attributes, Log, Point, Record, Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_rl.offline.reader.processes import Process

ROOTS = {"resourceSpans": "traces", "resourceMetrics": "metrics", "resourceLogs": "logs"}
"""Top-level field of a request -> signal."""

_TOO_LARGE = 2**64  # fixed64 times and counts are unsigned
_STATUS_ERROR = (2, "STATUS_CODE_ERROR")
_CUMULATIVE = (2, "AGGREGATION_TEMPORALITY_CUMULATIVE")
# Exponential histograms keep count, sum and range; their buckets are not needed for what the report shows.
_KINDS = {"gauge": "gauge", "sum": "sum", "histogram": "histogram", "exponentialHistogram": "histogram"}


def integer(value: Any) -> int:
    """An int64 in any of its spellings; 0 when absent or nonsense."""
    try:
        result = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return result if abs(result) < _TOO_LARGE else 0


def number(value: Any) -> float:
    """A double in any of its spellings; NaN when absent or nonsense."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def any_value(value: Any) -> Any:
    """An OTLP ``AnyValue`` as a plain Python value."""
    if not isinstance(value, dict):
        return None
    for key, item in value.items():
        convert = _VALUES.get(key)
        if convert is not None:
            return convert(item)
    return None


def key_values(pairs: Any) -> Attributes:
    """A list of OTLP ``KeyValue`` as a dict; pairs without a key are left out."""
    if not isinstance(pairs, list):
        return {}
    return {
        str(pair["key"]): any_value(pair.get("value")) for pair in pairs if isinstance(pair, dict) and "key" in pair
    }


def records(request: dict[str, Any], process_of: Callable[[Attributes], Process]) -> Iterator[Record]:
    """All records of one export request; ``process_of`` finds the process that a resource stands for."""
    for root in ROOTS:
        for entry in _items(request, root):
            process = process_of(key_values(_mapping(entry, "resource").get("attributes")))
            for scoped in _items(entry, root.replace("resource", "scope")):
                scope = str(_mapping(scoped, "scope").get("name", ""))
                yield from _READERS[root](scoped, process, scope)


_VALUES: dict[str, Callable[[Any], Any]] = {
    "stringValue": lambda item: item,
    "boolValue": lambda item: item,
    "bytesValue": lambda item: item,
    "intValue": integer,
    "doubleValue": number,
    "arrayValue": lambda item: [any_value(entry) for entry in _items(item, "values")],
    "kvlistValue": lambda item: key_values(_items(item, "values")),
}


def _list(owner: Any, key: str) -> list[Any]:
    value = owner.get(key) if isinstance(owner, dict) else None
    return value if isinstance(value, list) else []


def _items(owner: Any, key: str) -> list[Any]:
    return [item for item in _list(owner, key) if isinstance(item, dict)]


def _mapping(owner: dict[str, Any], key: str) -> dict[str, Any]:
    value = owner.get(key)
    return value if isinstance(value, dict) else {}


def _spans(scoped: dict[str, Any], process: Process, scope: str) -> Iterator[Record]:
    for item in _items(scoped, "spans"):
        status = _mapping(item, "status")
        yield Span(
            process=process,
            scope=scope,
            name=str(item.get("name", "")),
            trace_id=str(item.get("traceId", "")).lower(),
            span_id=str(item.get("spanId", "")).lower(),
            parent_id=str(item.get("parentSpanId") or "").lower(),
            start=integer(item.get("startTimeUnixNano")),
            end=integer(item.get("endTimeUnixNano")),
            attributes=key_values(item.get("attributes")),
            events=[_span_event(event) for event in _items(item, "events")],
            failed=status.get("code") in _STATUS_ERROR,
            message=str(status.get("message") or ""),
            dropped=sum(integer(item.get(f"dropped{what}Count")) for what in ("Attributes", "Events", "Links")),
        )


def _span_event(item: dict[str, Any]) -> SpanEvent:
    return SpanEvent(str(item.get("name", "")), integer(item.get("timeUnixNano")), key_values(item.get("attributes")))


def _points(scoped: dict[str, Any], process: Process, scope: str) -> Iterator[Record]:
    for metric in _items(scoped, "metrics"):
        for field, kind in _KINDS.items():
            data = _mapping(metric, field)
            cumulative = data.get("aggregationTemporality") in _CUMULATIVE
            for item in _items(data, "dataPoints"):
                point = _point(item, process, scope, str(metric.get("name", "")), kind)
                point.cumulative = cumulative
                yield point


def _point(item: dict[str, Any], process: Process, scope: str, metric: str, kind: str) -> Point:
    value = item.get("sum") if kind == "histogram" else item.get("asDouble", item.get("asInt"))
    return Point(
        process=process,
        scope=scope,
        metric=metric,
        kind=kind,
        cumulative=False,
        start=integer(item.get("startTimeUnixNano")),
        time=integer(item.get("timeUnixNano")),
        value=number(0 if value is None else value),
        attributes=key_values(item.get("attributes")),
        count=integer(item.get("count")),
        minimum=number(item["min"]) if "min" in item else None,
        maximum=number(item["max"]) if "max" in item else None,
        bounds=[number(bound) for bound in _list(item, "explicitBounds")],
        counts=[integer(count) for count in _list(item, "bucketCounts")],
    )


def _logs(scoped: dict[str, Any], process: Process, scope: str) -> Iterator[Record]:
    for item in _items(scoped, "logRecords"):
        yield Log(
            process=process,
            scope=scope,
            event=str(item.get("eventName") or ""),
            time=integer(item.get("timeUnixNano")) or integer(item.get("observedTimeUnixNano")),
            severity=integer(item.get("severityNumber")),
            severity_text=str(item.get("severityText") or ""),
            body=any_value(item.get("body")),
            attributes=key_values(item.get("attributes")),
            trace_id=str(item.get("traceId") or "").lower(),
        )


_READERS = {"resourceSpans": _spans, "resourceMetrics": _points, "resourceLogs": _logs}
