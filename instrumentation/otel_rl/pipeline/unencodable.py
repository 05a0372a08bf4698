"""Finds the unencodable items of a failed batch, so that the other items can still be exported.

The OTLP exporters encode a whole batch and answer FAILURE for an item that protobuf refuses (a lone surrogate, say):
``opentelemetry.exporter.otlp.proto.http.trace_exporter.OTLPSpanExporter.export`` in SDK 1.44 and 1.45.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_rl.pipeline import exporter_selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.metrics.export import Metric, MetricsData, ResourceMetrics, ScopeMetrics

    Encode = Callable[[Any], Any]

#: Exporters that encode with protobuf, by entry point and by their name in a configuration file.
_PROTOBUF = frozenset({exporter_selection.OTLP_GRPC, exporter_selection.OTLP_HTTP, "otlp_grpc", "otlp_http"})


def encodable(signal: str, exporter: str, data: Any, count: Callable[[Any], int]) -> tuple[Any, int]:
    """Return ``data`` without the items that the encoder refuses, and their number (0: encoding is not the cause)."""
    encode = _encoder(signal, exporter)
    if encode is None or _passes(encode, data):
        return data, 0
    good = _metrics(data, encode) if signal == "metrics" else [item for item in data if _passes(encode, [item])]
    return good, count(data) - count(good)


def _encoder(signal: str, exporter: str) -> Encode | None:
    """Return the function that the exporter encodes with; None for exporters that we do not know."""
    if exporter == exporter_selection.FILE:
        from otel_rl.store.writer.file_exporter import encode  # noqa: PLC0415 - loaded with the exporter already

        return lambda data: encode(signal, data)
    if exporter not in _PROTOBUF:
        return None
    from opentelemetry.exporter.otlp.proto.common import (  # noqa: PLC0415 - loaded with the exporter already
        _log_encoder,
        metrics_encoder,
        trace_encoder,
    )

    encoders: dict[str, Encode] = {
        "traces": trace_encoder.encode_spans,
        "metrics": metrics_encoder.encode_metrics,
        "logs": _log_encoder.encode_logs,
    }
    return lambda data: encoders[signal](data).SerializePartialToString()


def _passes(encode: Encode, data: Any) -> bool:
    try:
        encode(data)
    except Exception:  # noqa: BLE001 - whatever the encoder raises for a value that it did not expect
        return False
    return True


def _metrics(data: MetricsData, encode: Encode) -> MetricsData:
    """Return the metrics that can be encoded; the points of a metric share one encoding."""

    def keep(resource: ResourceMetrics, scope: ScopeMetrics, metric: Metric) -> bool:
        alone = replace(scope, metrics=[metric])
        return _passes(encode, replace(data, resource_metrics=[replace(resource, scope_metrics=[alone])]))

    return replace(
        data,
        resource_metrics=[
            replace(
                resource,
                scope_metrics=[
                    replace(scope, metrics=[metric for metric in scope.metrics if keep(resource, scope, metric)])
                    for scope in resource.scope_metrics
                ],
            )
            for resource in data.resource_metrics
        ],
    )
