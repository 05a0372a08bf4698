"""The three SDK providers, set up at start; exporters, threads and files wait for the first record."""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import get_logger_provider, set_logger_provider
from opentelemetry.metrics import get_meter_provider, set_meter_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.trace import get_tracer_provider, set_tracer_provider

from otel_rl import stderr
from otel_rl.offline.store.process_store import ProcessStore
from otel_rl.pipeline import exporter_selection, exporters, private_random, python_warnings
from otel_rl.pipeline.batching import BatchWorker, Deliverer, Limits
from otel_rl.pipeline.identity_gate import Gate
from otel_rl.pipeline.metric_reader import LazyMetricReader, wake_at_first_measurement
from otel_rl.pipeline.processors import SDK_LENGTH_LIMIT, QueueLogRecordProcessor, QueueSpanProcessor, mark_truncation
from otel_rl.process import process_identity
from otel_rl.telemetry import run_span
from otel_rl.telemetry.correlation import BaggageLogRecordProcessor, BaggageSpanProcessor
from otel_rl.telemetry.ids import IdGenerator

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.resources import Resource

#: Seconds between metric exports, where OTEL_METRIC_EXPORT_INTERVAL says nothing; the SDK's 60 s are half a short run.
METRIC_INTERVAL = 15.0
_LOGGING_HANDLER = "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED"
_LENGTH_LIMITS = ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT")


@dataclass
class Telemetry:
    """What the configurator has set up and what the end of the process and forks have to deal with."""

    plan: exporter_selection.Plan
    store: ProcessStore
    gate: Gate
    tracer_provider: TracerProvider
    meter_provider: MeterProvider
    logger_provider: LoggerProvider
    workers: list[BatchWorker[Any]] = field(default_factory=list)
    readers: list[LazyMetricReader] = field(default_factory=list)

    @property
    def parts(self) -> list[Deliverer]:
        """Everything that delivers."""
        return [*self.workers, *self.readers]

    def wake_readers(self) -> None:
        """Something has been measured: begin to collect metrics."""
        for reader in self.readers:
            reader.wake()

    def begin(self) -> None:
        """Something has been recorded, by whomever: the run has something to report."""
        self.wake_readers()
        run_span.touch()

    def arm(self) -> None:
        """Begin to collect metrics with the first measurement."""
        wake_at_first_measurement(self.meter_provider, self.wake_readers)


def build(chosen: exporter_selection.Plan, resource: Resource) -> Telemetry:
    """Set up the providers of ``chosen`` and make them the global ones."""
    gate, store, environ = Gate(), ProcessStore(resource), os.environ
    readers = [_reader(name, store, gate) for name in chosen.exporters["metrics"]]
    private_random.isolate()
    python_warnings.keep_filters()
    telemetry = Telemetry(
        chosen,
        store,
        gate,
        TracerProvider(
            resource=resource,
            shutdown_on_exit=False,
            id_generator=_id_generator(),
            sampler=_custom_sampler(),
            span_limits=None
            if any(map(environ.get, _LENGTH_LIMITS))
            else SpanLimits(max_attribute_length=SDK_LENGTH_LIMIT),
            **_configurator("tracer"),
        ),
        MeterProvider(readers, resource, shutdown_on_exit=False, **_configurator("meter")),
        LoggerProvider(resource, shutdown_on_exit=False, **_configurator("logger")),
        readers=[reader for reader in readers if isinstance(reader, LazyMetricReader)],
    )
    _add_processors(telemetry)
    set_tracer_provider(telemetry.tracer_provider)
    set_meter_provider(telemetry.meter_provider)
    set_logger_provider(telemetry.logger_provider)
    _report_refusal(telemetry)
    telemetry.arm()
    if os.environ.get(_LOGGING_HANDLER, "").strip().lower() == "true":
        _attach_logging_handler(telemetry.logger_provider)
    return telemetry


def _report_refusal(telemetry: Telemetry) -> None:
    """The API keeps the first provider: one that a sitecustomize of the user has set."""
    ours = (telemetry.tracer_provider, telemetry.meter_provider, telemetry.logger_provider)
    used = (get_tracer_provider(), get_meter_provider(), get_logger_provider())
    refused = [
        signal for signal, mine, its in zip(exporter_selection.SIGNALS, ours, used, strict=True) if mine is not its
    ]
    if refused:
        stderr.write_line(
            f"otel-rl: {' and '.join(refused)} go to the provider that the program has set before the start of otel-rl,"
            " and not to the exporters of otel-rl"
        )


def _attach_logging_handler(provider: LoggerProvider) -> None:
    """The program's log as log records, where the user asks for it as with upstream's configurator."""
    from opentelemetry.sdk._configuration import _overwrite_logging_config_fns  # noqa: PLC0415 - costly, rarely needed
    from opentelemetry.sdk._logs import LoggingHandler  # noqa: PLC0415

    handler = LoggingHandler(level=logging.NOTSET, logger_provider=provider)
    logging.getLogger().addHandler(handler)
    _overwrite_logging_config_fns(handler)


def _add_processors(telemetry: Telemetry) -> None:
    telemetry.tracer_provider.add_span_processor(BaggageSpanProcessor())
    telemetry.logger_provider.add_log_record_processor(BaggageLogRecordProcessor())
    for name in telemetry.plan.exporters["traces"]:
        worker = _worker("traces", name, telemetry, "OTEL_BSP", Limits(delay=5.0), mark_truncation)
        telemetry.tracer_provider.add_span_processor(QueueSpanProcessor(worker))
    for name in telemetry.plan.exporters["logs"]:
        worker = _worker("logs", name, telemetry, "OTEL_BLRP", Limits(delay=1.0))
        telemetry.logger_provider.add_log_record_processor(QueueLogRecordProcessor(worker))


def _worker(
    signal: str,
    name: str,
    telemetry: Telemetry,
    prefix: str,
    default: Limits,
    prepare: Callable[[Any], None] = lambda _: None,
) -> BatchWorker[Any]:
    queue = max(int(_number(f"{prefix}_MAX_QUEUE_SIZE", default.queue)), 1)
    limits = Limits(
        queue,
        min(max(int(_number(f"{prefix}_MAX_EXPORT_BATCH_SIZE", default.batch)), 1), queue),
        max(_number(f"{prefix}_SCHEDULE_DELAY", default.delay * 1000) / 1000, 0.001),
    )
    worker: BatchWorker[Any] = BatchWorker(
        signal, partial(_open, signal, name, telemetry.store), telemetry.gate, limits, telemetry.begin, prepare
    )
    telemetry.workers.append(worker)
    return worker


def _open(signal: str, name: str, store: ProcessStore) -> Any:
    with exporters.opening, python_warnings.remembered():
        exporter = exporters.open_exporter(signal, name, store.files)
        private_random.isolate()
    return exporter


def _reader(name: str, store: ProcessStore, gate: Gate) -> MetricReader:
    interval = max(_number("OTEL_METRIC_EXPORT_INTERVAL", METRIC_INTERVAL * 1000) / 1000, 0.01)
    if not exporters.metric_exporter_is_asked_first(name, os.environ):
        return LazyMetricReader(partial(_open, "metrics", name, store), gate, interval)
    exporter = _open("metrics", name, store)
    if isinstance(exporter, MetricReader):
        return exporter
    temporality, aggregation = exporter._preferred_temporality, exporter._preferred_aggregation  # noqa: SLF001
    return LazyMetricReader(lambda: exporter, gate, interval, temporality, aggregation)


def _number(variable: str, default: float) -> float:
    text = os.environ.get(variable, "").strip()
    try:
        number = float(text) if text else default
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    if process_identity.current().leads:
        stderr.write_line(f'otel-rl: {variable}="{text}" is not a number; using {default:g}')
    return default


def _id_generator() -> Any:
    """Ours, unless the user has chosen one that is not the SDK's default."""
    name = os.environ.get("OTEL_PYTHON_ID_GENERATOR", "").strip()
    if name in ("", "random"):
        return IdGenerator()
    from opentelemetry.sdk._configuration import _import_id_generator  # noqa: PLC0415 - costly, rarely needed

    return _import_id_generator(name)


def _custom_sampler() -> Any:
    """A sampler from somebody's entry point; the SDK's own ones are found by the provider itself."""
    from opentelemetry.sdk.trace.sampling import _KNOWN_SAMPLERS  # noqa: PLC0415 - no public list

    name = os.environ.get("OTEL_TRACES_SAMPLER", "").strip()
    if not name or name.lower() in _KNOWN_SAMPLERS:
        return None
    from opentelemetry.sdk._configuration import _import_sampler  # noqa: PLC0415 - costly, rarely needed

    return _import_sampler(name)


def _configurator(kind: str) -> dict[str, Any]:
    """The experimental ``OTEL_PYTHON_{TRACER,METER,LOGGER}_CONFIGURATOR``."""
    name = os.environ.get(f"OTEL_PYTHON_{kind.upper()}_CONFIGURATOR")
    if not name:
        return {}
    from opentelemetry.sdk import _configuration  # noqa: PLC0415 - costly, rarely needed

    return {f"_{kind}_configurator": getattr(_configuration, f"_import_{kind}_configurator")(name)}
