"""``otel.sdk.*``: our queues and exporters observed under the names that the SDK's own use."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from otel_rl.semconv import attributes, metrics
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_rl.pipeline.providers import Telemetry

    Observations = Iterator[tuple[float, Mapping[str, str]]]

_QUEUE = "otel_rl_batch_queue"
_PROCESSORS = {
    "traces": (
        metrics.OTEL_SDK_PROCESSOR_SPAN_QUEUE_SIZE,
        metrics.OTEL_SDK_PROCESSOR_SPAN_QUEUE_CAPACITY,
        metrics.OTEL_SDK_PROCESSOR_SPAN_PROCESSED,
    ),
    "logs": (
        metrics.OTEL_SDK_PROCESSOR_LOG_QUEUE_SIZE,
        metrics.OTEL_SDK_PROCESSOR_LOG_QUEUE_CAPACITY,
        metrics.OTEL_SDK_PROCESSOR_LOG_PROCESSED,
    ),
}
_EXPORTERS = {
    "traces": (metrics.OTEL_SDK_EXPORTER_SPAN_INFLIGHT, metrics.OTEL_SDK_EXPORTER_SPAN_EXPORTED),
    "metrics": (
        metrics.OTEL_SDK_EXPORTER_METRIC_DATA_POINT_INFLIGHT,
        metrics.OTEL_SDK_EXPORTER_METRIC_DATA_POINT_EXPORTED,
    ),
    "logs": (metrics.OTEL_SDK_EXPORTER_LOG_INFLIGHT, metrics.OTEL_SDK_EXPORTER_LOG_EXPORTED),
}


def register(telemetry: Telemetry) -> None:
    """Observe all queues and exporters; called once, when they stand."""
    scope = Scope("telemetry")
    for signal, (size, capacity, processed) in _PROCESSORS.items():
        scope.observe(size, partial(_queues, telemetry, signal, "size"))
        scope.observe(capacity, partial(_queues, telemetry, signal, "capacity"))
        scope.observe(processed, partial(_processed, telemetry, signal))
    for signal, (inflight, exported) in _EXPORTERS.items():
        scope.observe(inflight, partial(_in_flight, telemetry, signal))
        scope.observe(exported, partial(_exported, telemetry, signal))


def _component(kind: str, number: int) -> dict[str, str]:
    return {attributes.OTEL_COMPONENT_TYPE: kind, attributes.OTEL_COMPONENT_NAME: f"{kind}/{number}"}


def _queues(telemetry: Telemetry, signal: str, field: str) -> Observations:
    for number, queue in enumerate(telemetry.queues):
        if queue.signal == signal:
            yield queue.left if field == "size" else queue.limits.queue, _component(_QUEUE, number)


def _processed(telemetry: Telemetry, signal: str) -> Observations:
    for number, queue in enumerate(telemetry.queues):
        if queue.signal == signal:
            component = _component(_QUEUE, number)
            yield queue.processed, component
            if queue.refused:
                yield queue.refused, {**component, attributes.ERROR_TYPE: "queue_full"}


def _in_flight(telemetry: Telemetry, signal: str) -> Observations:
    for number, sink in enumerate(telemetry.sinks):
        if sink.signal == signal:
            yield sink.in_flight, _component(sink.destination.exporter, number)


def _exported(telemetry: Telemetry, signal: str) -> Observations:
    for number, sink in enumerate(telemetry.sinks):
        if sink.signal == signal:
            component = _component(sink.destination.exporter, number)
            yield sink.delivered, component
            # The export has failed, although the items are not lost.
            for reason, lost in [*sink.losses.items(), *([("kept_in_files", sink.kept)] if sink.kept else [])]:
                yield lost, {**component, attributes.ERROR_TYPE: reason}
