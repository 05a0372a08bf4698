"""``OTEL_CONFIG_FILE``: upstream builds the providers from the file, with our queues and readers in them.

So the file decides on exporters, limits, samplers and resource, and everything else is as without a file: I/O threads,
gate, drop counts, forks, flush and exit.
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import _logs as logs_api
from opentelemetry import metrics as metrics_api
from opentelemetry import trace as trace_api
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from otel_rl.core import addresses, settings
from otel_rl.core.guard import guard
from otel_rl.pipeline import (
    exporters,
    private_random,
    program_log,
    python_warnings,
    resource,
    sdk_metrics,
)
from otel_rl.pipeline.batching import Limits
from otel_rl.pipeline.destination import Destination
from otel_rl.pipeline.metric_reader import LazyMetricReader, count_points
from otel_rl.pipeline.processors import QueueLogRecordProcessor, QueueSpanProcessor, isolate_processors
from otel_rl.pipeline.providers import METRIC_INTERVAL, METRIC_TIMEOUT, Telemetry
from otel_rl.pipeline.redaction import RedactingLogRecordProcessor, RedactingSpanProcessor
from otel_rl.pipeline.sink import Sink
from otel_rl.process import process_identity
from otel_rl.semconv import SCHEMA_URL
from otel_rl.store.writer.process_store import ProcessStore
from otel_rl.telemetry import self_metrics
from otel_rl.telemetry.correlation import BaggageLogRecordProcessor, BaggageSpanProcessor
from otel_rl.telemetry.ids import IdGenerator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from opentelemetry.sdk._logs import LogRecordProcessor
    from opentelemetry.sdk.trace import SpanProcessor

#: Seconds between exports behind a ``simple`` processor: soon, but not on the program's thread.
SIMPLE_DELAY = 0.2
_FILE = "otlp_file_development"
_OTLP_HTTP, _OTLP_GRPC = "otlp_http", "otlp_grpc"
#: With one of these set the metric exporter decides on temporality or aggregation, so it is opened at the start.
_METRIC_PREFERENCES = ("temporality_preference", "default_histogram_aggregation")


class Unsupported(Exception):  # noqa: N818 - the user reads its text
    """The installed ``opentelemetry-configuration`` looks different inside."""


def build(path: str) -> Telemetry:
    """Set up what the file at ``path`` says.

    Raises:
        ImportError: ``opentelemetry-configuration`` is not installed.
        Exception: whatever is wrong with the file.
    """
    from opentelemetry.configuration import configure_sdk, load_config_file  # noqa: PLC0415 - an optional package

    telemetry = Telemetry(ProcessStore(Resource.get_empty()))
    with _our_parts(telemetry):
        configure_sdk(load_config_file(path))
    telemetry.tracer_provider = _sdk_provider(trace_api._TRACER_PROVIDER)  # noqa: SLF001 - the public functions create one
    telemetry.meter_provider = _sdk_provider(metrics_api._internal._METER_PROVIDER)  # noqa: SLF001
    telemetry.logger_provider = _sdk_provider(logs_api._internal._LOGGER_PROVIDER)  # noqa: SLF001
    _complete(telemetry)
    telemetry.arm()
    telemetry.accept_posts()
    program_log.record(telemetry.logger_provider)
    return telemetry


def _sdk_provider(provider: Any) -> Any:
    return provider if hasattr(provider, "shutdown") else None


class _Exporter:
    """An exporter as the file configures it, opened at its first export."""

    def __init__(self, signal: str, create: Callable[[Any], Any], config: Any) -> None:
        self.signal = signal
        self._create = create
        self.config = config

    def open(self) -> Any:
        kind = self.kind()[0]
        with exporters.opening, python_warnings.remembered():
            if kind == _OTLP_GRPC:
                exporters.load_grpc_without_its_log()
            exporter = self._create(self.config)
            if kind in (_OTLP_HTTP, _OTLP_GRPC):
                exporter = exporters.watched(exporter, self.signal)
            private_random.isolate()
        return exporter

    def kind(self) -> tuple[str, Any]:
        """(name, its part of the file)."""
        names = (name for name in vars(self.config) if getattr(self.config, name) is not None)
        name = next(names, "")
        return name, getattr(self.config, name, None)

    def sink(self) -> Sink:
        """Return the exporter with its account."""
        name, part = self.kind()
        address = getattr(part, "endpoint", None) or getattr(part, "output_stream", None)
        words = addresses.without_credentials(address) if address else name
        count = count_points if self.signal == "metrics" else len
        return Sink(self.signal, Destination(name, words, is_file=name == _FILE), self.open, count)


@contextmanager
def _our_parts(telemetry: Telemetry) -> Iterator[None]:
    """Replace upstream's processors, readers and exporters by ours while it builds its providers.

    There is no public seam: ``opentelemetry-configuration`` 0.65b0 and 0.66b1 create them in the three modules below.
    """
    from opentelemetry.configuration import _logger_provider, _meter_provider, _tracer_provider  # noqa: PLC0415

    replaced: list[tuple[ModuleType, dict[str, Any]]] = [
        (
            _tracer_provider,
            {
                "_create_span_exporter": partial(_deferred, "traces"),
                "BatchSpanProcessor": partial(_queue, telemetry, QueueSpanProcessor, 5.0),
                "SimpleSpanProcessor": partial(_queue, telemetry, QueueSpanProcessor, SIMPLE_DELAY),
            },
        ),
        (
            _logger_provider,
            {
                "_create_log_record_exporter": partial(_deferred, "logs"),
                "BatchLogRecordProcessor": partial(_queue, telemetry, QueueLogRecordProcessor, 1.0),
                "SimpleLogRecordProcessor": partial(_queue, telemetry, QueueLogRecordProcessor, SIMPLE_DELAY),
            },
        ),
        (
            _meter_provider,
            {
                "_create_push_metric_exporter": partial(_deferred, "metrics"),
                "PeriodicExportingMetricReader": partial(_reader, telemetry),
            },
        ),
    ]
    with ExitStack() as restored:
        for module, names in replaced:
            for name, ours in names.items():
                original = getattr(module, name, None)
                if original is None:
                    raise Unsupported(f"this version of opentelemetry-configuration has no {module.__name__}.{name}")
                restored.callback(setattr, module, name, original)
                setattr(module, name, partial(ours, original) if ours.func is _deferred else ours)
        yield


def _deferred(signal: str, create: Callable[[Any], Any], config: Any) -> _Exporter:
    return _Exporter(signal, create, config)


def _queue(
    telemetry: Telemetry,
    processor: Callable[[Any], Any],
    delay: float,
    exporter: _Exporter,
    *,
    max_queue_size: int | None = None,
    schedule_delay_millis: float | None = None,
    max_export_batch_size: int | None = None,
    **_: Any,
) -> Any:
    """Replace the SDK's batch or simple processor, with the same arguments."""
    default = Limits()
    queue = max_queue_size or default.queue
    limits = Limits(
        queue,
        min(max_export_batch_size or default.batch, queue),
        delay if schedule_delay_millis is None else max(schedule_delay_millis / 1000, 0.001),
    )
    return processor(telemetry.queue(exporter.sink(), limits))


def _reader(
    telemetry: Telemetry,
    exporter: _Exporter,
    export_interval_millis: float | None = None,
    export_timeout_millis: float | None = None,
) -> LazyMetricReader:
    """Replace the SDK's periodic reader, with the same arguments."""
    sink = exporter.sink()
    telemetry.keep_undelivered(sink)
    name, part = exporter.kind()
    temporality = aggregation = None
    if not name.startswith("otlp") or any(getattr(part, field, None) is not None for field in _METRIC_PREFERENCES):
        opened = exporter.open()
        temporality, aggregation = opened._preferred_temporality, opened._preferred_aggregation  # noqa: SLF001
        sink.adopt(opened)
    reader = LazyMetricReader(
        sink,
        telemetry.thread_of(sink.destination),
        telemetry.gate,
        (export_interval_millis or METRIC_INTERVAL * 1000) / 1000,
        (export_timeout_millis or METRIC_TIMEOUT * 1000) / 1000,
        temporality,
        aggregation,
    )
    telemetry.readers.append(reader)
    return reader


def _complete(telemetry: Telemetry) -> None:
    """Run identity on the resource (the file's own attributes win), step trace ids, baggage, private random numbers."""
    private_random.isolate()
    python_warnings.keep_filters()
    for provider in _providers(telemetry):
        # The end of the process is ours: bounded, and once.
        atexit.unregister(provider.shutdown)
    spans: list[SpanProcessor] = [BaggageSpanProcessor()]
    records: list[LogRecordProcessor] = [BaggageLogRecordProcessor()]
    if settings.current().redact is not None:
        spans.append(RedactingSpanProcessor())
        records.append(RedactingLogRecordProcessor())
    with guard("config_file.tracer_provider"):
        if isinstance(getattr(telemetry.tracer_provider, "id_generator", None), RandomIdGenerator):
            telemetry.tracer_provider.id_generator = IdGenerator()  # type: ignore[union-attr]
        if telemetry.tracer_provider is not None:
            isolate_processors(telemetry.tracer_provider)
            _put_first(telemetry.tracer_provider, "_active_span_processor", "_span_processors", spans)
    with guard("config_file.logger_provider"):
        if telemetry.logger_provider is not None:
            holder, name = "_multi_log_record_processor", "_log_record_processors"
            _put_first(telemetry.logger_provider, holder, name, records)
    _identify(telemetry)
    self_metrics.register()
    sdk_metrics.register(telemetry)


def _providers(telemetry: Telemetry) -> list[Any]:
    providers = (telemetry.tracer_provider, telemetry.meter_provider, telemetry.logger_provider)
    return [provider for provider in providers if provider is not None]


def _put_first(provider: Any, holder: str, name: str, processors: Sequence[Any]) -> None:
    """Put ``processors`` before the exporting ones, because those copy the log record."""
    multi = getattr(provider, holder)
    setattr(multi, name, (*processors, *getattr(multi, name)))


def _identify(telemetry: Telemetry) -> None:
    """Let the resources follow the run's identity, as without a file; the file's own attributes win.

    Records made before run id and rank are known keep a reference to their resource: a later replacement would not
    reach them.
    """
    resource.follow_identity()
    process_identity.add_listener(resource.follow_identity)
    for provider in _providers(telemetry):
        with guard("config_file.resource"):
            # The meter provider keeps it in its configuration.
            holder: Any = getattr(provider, "_sdk_config", provider)
            name = "_resource" if holder is provider else "resource"
            current = getattr(holder, name)
            following = resource.RunResource(current.attributes, current.schema_url or SCHEMA_URL)
            setattr(holder, name, following)
            # Tracers and loggers that exist have a reference of their own.
            provider._update_resource(Resource.get_empty())  # noqa: SLF001 - no public way to replace a resource
            telemetry.store.describe(following)
