"""SDK exporters in front of the file store: the official OTLP JSON encoder, one line per export."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.json.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.json.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.trace.export import SpanExportResult

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import Enum

    from otel_rl.offline.store.file_store import FileStore

_KINDS: dict[str, tuple[Callable[[Any], Any], type[Enum]]] = {
    "traces": (encode_spans, SpanExportResult),
    "metrics": (encode_metrics, MetricExportResult),
    "logs": (encode_logs, LogRecordExportResult),
}


class FileExporter:
    """Exports one signal to ``store``. It counts its own drops, by reason."""

    counts_drops = True

    def __init__(self, signal: str, store: FileStore, count: Callable[[Any], int] = len) -> None:
        self._signal = signal
        self._store = store
        self._count = count
        self._encode, self._result = _KINDS[signal]

    def export(self, data: Any, timeout_millis: float = 10_000, **kwargs: Any) -> Enum:
        """Write one line; FAILURE where it was dropped."""
        line = json.dumps(self._encode(data).to_dict(), separators=(",", ":")).encode("ascii")
        written = self._store.write(self._signal, line, self._count(data))
        return self._result["SUCCESS" if written else "FAILURE"]

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Every export has reached the operating system already."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """The store is closed by the process, not by one of its signals."""
