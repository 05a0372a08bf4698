"""Decodes OTLP JSON (``ExportTraceServiceRequest`` and its siblings) into records.

Follows the OTLP JSON encoding: 64-bit integers may be strings, ids are hex, doubles may be ``"NaN"`` or
``"Infinity"``, default values are left out, unknown fields are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.store.reader.otlp_values import any_value, integer, items_of, key_values, list_of, mapping_of, number
from otel_rl.store.reader.records import Log, Point, Record, Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from otel_rl.store.reader.otlp_values import Attributes
    from otel_rl.store.reader.processes import Process

ROOTS = {"resourceSpans": "traces", "resourceMetrics": "metrics", "resourceLogs": "logs"}
"""Top-level field of a request -> signal."""

_STATUS_ERROR = (2, "STATUS_CODE_ERROR")
_KIND_SERVER = (2, "SPAN_KIND_SERVER")
_CUMULATIVE = (2, "AGGREGATION_TEMPORALITY_CUMULATIVE")
# Exponential histograms keep count, sum and range; their buckets are not needed for what the report shows.
_KINDS = {"gauge": "gauge", "sum": "sum", "histogram": "histogram", "exponentialHistogram": "histogram"}


def records(request: dict[str, Any], process_of: Callable[[Attributes], Process]) -> Iterator[Record]:
    """All records of one export request; ``process_of`` finds the process that a resource stands for."""
    for root in ROOTS:
        for entry in items_of(request, root):
            process = process_of(key_values(mapping_of(entry, "resource").get("attributes")))
            scopes = items_of(entry, root.replace("resource", "scope"))
            records = (
                record
                for scoped in scopes
                for record in _READERS[root](scoped, process, str(mapping_of(scoped, "scope").get("name", "")))
            )
            yield from sorted(records, key=_end) if root == "resourceSpans" else records


def leave_traces(request: dict[str, Any], trace_ids: Collection[str]) -> None:
    """Leave of a request only the spans of these traces."""
    for entry in items_of(request, "resourceSpans"):
        for scoped in items_of(entry, "scopeSpans"):
            spans = items_of(scoped, "spans")
            scoped["spans"] = [span for span in spans if str(span.get("traceId", "")).lower() in trace_ids]


def _end(span: Any) -> tuple[int, int]:
    """Sort key: a request groups its spans by scope, but a span comes after the spans inside it."""
    return span.end, -span.start


def _spans(scoped: dict[str, Any], process: Process, scope: str) -> Iterator[Record]:
    for item in items_of(scoped, "spans"):
        status = mapping_of(item, "status")
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
            events=[_span_event(event) for event in items_of(item, "events")],
            failed=status.get("code") in _STATUS_ERROR,
            message=str(status.get("message") or ""),
            dropped=sum(integer(item.get(f"dropped{what}Count")) for what in ("Attributes", "Events", "Links")),
            is_server=item.get("kind") in _KIND_SERVER,
            links=[_ids(link) for link in items_of(item, "links")],
        )


def _ids(link: dict[str, Any]) -> tuple[str, str]:
    return str(link.get("traceId", "")).lower(), str(link.get("spanId", "")).lower()


def _span_event(item: dict[str, Any]) -> SpanEvent:
    return SpanEvent(str(item.get("name", "")), integer(item.get("timeUnixNano")), key_values(item.get("attributes")))


def _points(scoped: dict[str, Any], process: Process, scope: str) -> Iterator[Record]:
    for metric in items_of(scoped, "metrics"):
        for field, kind in _KINDS.items():
            data = mapping_of(metric, field)
            cumulative = data.get("aggregationTemporality") in _CUMULATIVE
            for item in items_of(data, "dataPoints"):
                point = _point(item, process, scope, str(metric.get("name", "")), kind)
                point.cumulative, point.monotonic = cumulative, data.get("isMonotonic") is True
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
        bounds=[number(bound) for bound in list_of(item, "explicitBounds")],
        counts=[integer(count) for count in list_of(item, "bucketCounts")],
    )


def _logs(scoped: dict[str, Any], process: Process, scope: str) -> Iterator[Record]:
    for item in items_of(scoped, "logRecords"):
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
            span_id=str(item.get("spanId") or "").lower(),
        )


_READERS = {"resourceSpans": _spans, "resourceMetrics": _points, "resourceLogs": _logs}
