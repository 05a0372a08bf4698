"""SDK exporters in front of the file store: one line of OTLP JSON per export."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.json.common.metrics_encoder import encode_metrics
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import StatusCode

from otel_rl.semconv import events
from otel_rl.store.writer.otlp_json import encode_logs, encode_spans

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import Enum

    from otel_rl.store.writer.file_store import FileStore


def _encode_metrics(data: Any) -> bytes:
    return json.dumps(encode_metrics(data).to_dict(), separators=(",", ":")).encode("ascii")


_KINDS: dict[str, tuple[Callable[[Any], bytes], type[Enum]]] = {
    "traces": (encode_spans, SpanExportResult),
    "metrics": (_encode_metrics, MetricExportResult),
    "logs": (encode_logs, LogRecordExportResult),
}


def encode(signal: str, data: Any) -> bytes:
    """One line of OTLP JSON, without its newline."""
    encoder, _ = _KINDS[signal]
    return encoder(data)


def _is_failed_span(span: Any) -> bool:
    return span.status.status_code is StatusCode.ERROR


def _is_error_record(record: Any) -> bool:
    severity = record.log_record.severity_number
    return severity is not None and severity.value >= SeverityNumber.ERROR.value


def _is_copy(record: Any) -> bool:
    return bool(record.log_record.event_name == events.RL_TRAJECTORIES_PENDING.name)


#: Signal -> what has a stream of its own: the end of the stream's name, and what belongs there.
_APART: dict[str, dict[str, Callable[[Any], bool]]] = {
    "traces": {"errors": _is_failed_span},
    "logs": {"errors": _is_error_record, "pending": _is_copy},
}


class FileExporter:
    """Exports one signal to ``store``. It counts its own drops, by reason."""

    counts_drops = True

    def __init__(self, signal: str, store: FileStore, count: Callable[[Any], int] = len) -> None:
        self._signal = signal
        self._store = store
        self._count = count
        self._result = _KINDS[signal][1]

    def export(self, data: Any, timeout_millis: float = 10_000, **kwargs: Any) -> Enum:
        """Write errors and copies to streams of their own, the rest to the signal's; FAILURE where any was dropped."""
        streams = {self._signal: data}
        for name, belongs in _APART.get(self._signal, {}).items():
            if apart := [item for item in streams[self._signal] if belongs(item)]:
                streams[self._signal] = [item for item in streams[self._signal] if not belongs(item)]
                streams[f"{self._signal}-{name}"] = apart
        # Encoded first: an item that cannot be encoded must leave nothing behind.
        lines = [(stream, items, encode(self._signal, items)) for stream, items in streams.items() if items]
        written = [self._write(stream, items, line) for stream, items, line in lines]
        return self._result["SUCCESS" if all(written) else "FAILURE"]

    def _write(self, stream: str, items: Any, line: bytes) -> bool:
        number = self._count(items)
        if len(line) > self._store.largest_line(stream) and number > 1 and isinstance(items, list):
            middle = number // 2
            halves = [items[:middle], items[middle:]]
            written = [self._write(stream, half, encode(self._signal, half)) for half in halves]
            return all(written)
        return self._store.write(stream, line, number)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Every export has reached the operating system already."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Do nothing: the process closes the store, not one of its signals."""
