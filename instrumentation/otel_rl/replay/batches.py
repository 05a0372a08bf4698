"""Lines of OTLP JSON as export requests in protobuf: several lines to a request, each with its place in the file.

Times and ids stay as they were written. JSON has ids as hexadecimal digits, the mapping of protobuf as base64.
Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from google.protobuf.json_format import (  # type: ignore[import-untyped]
    ParseDict,
    ParseError,
)
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_rl.store.reader.compressed import opened
from otel_rl.store.reader.lines import MAX_LINE_BYTES, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from otel_rl.store.reader.unreadable import Unreadable

#: Bytes of JSON in a request of several lines. Receivers take 4 MiB over gRPC, many proxies 1 MiB over HTTP.
MAXIMUM_BYTES = 512 * 1024
REQUESTS: dict[str, Any] = {
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
    "logs": ExportLogsServiceRequest,
}
_IDS = ("traceId", "spanId", "parentSpanId")
#: Kinds of data of a metric.
_POINTS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")


@dataclass(frozen=True)
class Batch:
    """One export request: the lines from ``begin`` to ``end`` of a file."""

    file: str
    signal: str
    begin: int
    end: int
    request: Any
    items: int


def batches(
    path: Path, file: str, signal: str, acknowledged: Mapping[int, int], problems: Unreadable
) -> Iterator[Batch]:
    """Yield what a file holds and the destination has not acknowledged.

    A last line without its end is left: its writer may be at it.

    Args:
        path: the file.
        file: its name in the ledger.
        signal: what it holds.
        acknowledged: where a part that needs no sending begins, and where it ends.
        problems: counts the lines that cannot be read.

    Raises:
        OSError: the file cannot be opened, or read to its end; what is before that has been yielded.
    """
    request, begin, items = REQUESTS[signal](), 0, 0
    with opened(path) as stream:
        while True:
            place = stream.tell()
            end = acknowledged.get(place)
            if items and (end is not None or place - begin >= MAXIMUM_BYTES):
                yield Batch(file, signal, begin, place, request, items)
                request, items = REQUESTS[signal](), 0
            if end is not None:
                stream.seek(end)
                continue
            line, failure = _next_line(stream)
            if not line.endswith(b"\n"):
                problems.cut_off += bool(line)
                break
            part = _request(line, signal, problems)
            if part is None:
                continue
            if items and place + len(line) - begin > MAXIMUM_BYTES:
                yield Batch(file, signal, begin, place, request, items)
                request, items = REQUESTS[signal](), 0
            if not items:
                begin = place
            request.MergeFrom(part)
            items += count(part, signal)
    if items:
        yield Batch(file, signal, begin, place, request, items)
    if failure is not None:
        raise failure


def _next_line(stream: BinaryIO) -> tuple[bytes, OSError | None]:
    """Return the next line, or why there is none."""
    try:
        return stream.readline(MAX_LINE_BYTES), None
    except OSError as error:
        return b"", error


def _request(line: bytes, signal: str, problems: Unreadable) -> Any:
    parsed = parse(line, problems)
    if parsed is None:
        return None
    try:
        request = ParseDict(_with_binary_ids(parsed), REQUESTS[signal](), ignore_unknown_fields=True)
    except (ParseError, ValueError, TypeError):
        problems.foreign += 1
        return None
    return request if count(request, signal) else None


def _with_binary_ids(value: Any) -> Any:
    """Return the value with the ids as protobuf's mapping has them; no other key of OTLP has these names."""
    if isinstance(value, list):
        return [_with_binary_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode()
        if key in _IDS and isinstance(item, str)
        else _with_binary_ids(item)
        for key, item in value.items()
    }


def count(request: Any, signal: str) -> int:
    """Return the number of spans, log records or metric points."""
    if signal == "traces":
        return sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
    if signal == "logs":
        return sum(len(scope.log_records) for resource in request.resource_logs for scope in resource.scope_logs)
    return sum(
        len(getattr(metric, kind).data_points)
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for kind in _POINTS
        if metric.WhichOneof("data") == kind
    )
