"""The three SDK providers, set up at start; exporters, threads and files wait for the first record."""

from __future__ import annotations

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
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, StaticSampler, TraceIdRatioBased
from opentelemetry.trace import get_tracer_provider, set_tracer_provider

from otel_rl.core import addresses, settings, stderr
from otel_rl.flight_recorder.copies import Copies
from otel_rl.pipeline import (
    exporter_selection,
    exporters,
    outage,
    private_random,
    program_log,
    python_warnings,
    start_times,
)
from otel_rl.pipeline.batching import BatchQueue, Limits
from otel_rl.pipeline.destination import Destination
from otel_rl.pipeline.identity_gate import Gate
from otel_rl.pipeline.io_thread import IoThread
from otel_rl.pipeline.metric_reader import (
    LazyMetricReader,
    count_points,
    forget_measurements,
    wake_at_first_measurement,
)
from otel_rl.pipeline.processors import (
    IsolatedSpanProcessors,
    QueueLogRecordProcessor,
    QueueSpanProcessor,
    mark_truncation,
    sdk_length_limit,
    weight,
)
from otel_rl.pipeline.sink import Sink
from otel_rl.process import process_identity
from otel_rl.store.writer.process_store import ProcessStore
from otel_rl.telemetry import deferral, lifecycle, run_span
from otel_rl.telemetry.correlation import BaggageLogRecordProcessor, BaggageSpanProcessor
from otel_rl.telemetry.ids import IdGenerator

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.pipeline.undelivered import Undelivered

#: Seconds between metric exports, where OTEL_METRIC_EXPORT_INTERVAL says nothing; the SDK's 60 s are half a short run.
METRIC_INTERVAL = 15.0
#: Seconds for one collection and its export, where OTEL_METRIC_EXPORT_TIMEOUT says nothing; the SDK's own default.
METRIC_TIMEOUT = 30.0
#: What to do where an exporter that is opened at the start cannot be opened.
_WAYS_OUT = {
    "prometheus": "; set OTEL_EXPORTER_PROMETHEUS_PORT to another port for each process of a node, such as 9464 +"
    " LOCAL_RANK, or let a collector receive OTLP from all of them"
}
_LENGTH_LIMITS = ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT")


@dataclass
class Telemetry:
    """The parts that deliver, however the providers were set up; exit, forks and flush deal with nothing else."""

    store: ProcessStore
    gate: Gate = field(default_factory=Gate)
    queues: list[BatchQueue[Any]] = field(default_factory=list)
    readers: list[LazyMetricReader] = field(default_factory=list)
    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None
    logger_provider: LoggerProvider | None = None
    ring_copies: Copies = field(default_factory=Copies)
    files: IoThread = field(default_factory=lambda: IoThread("otel-rl-files"))
    network: IoThread = field(default_factory=lambda: IoThread("otel-rl-network"))
    #: What no destination took; made at the first such batch.
    undelivered: Undelivered | None = None

    def __post_init__(self) -> None:
        self.files.chores.append(self.store.files.refresh)
        self.files.spare_time.append(self.store.files.compress)
        self.files.chores.append(lambda: self.ring_copies.copy_when_due(self.store.files.directory))
        for thread in self.threads:
            thread.chores.append(self.ring_copies.beat)
            thread.chores.append(lifecycle.run_interval_callbacks)

    @property
    def threads(self) -> tuple[IoThread, IoThread]:
        """Return the I/O threads, the network first: its shutdown takes longer."""
        return self.network, self.files

    @property
    def parts(self) -> list[BatchQueue[Any] | LazyMetricReader]:
        """Everything that delivers."""
        return [*self.queues, *self.readers]

    @property
    def sinks(self) -> list[Sink]:
        """Every destination of every signal."""
        return [part.sink for part in self.parts]

    def thread_of(self, destination: Destination) -> IoThread:
        """Return the thread that may wait for ``destination``."""
        return self.files if destination.is_file else self.network

    def keep_undelivered(self, sink: Sink) -> None:
        """Let ``sink`` leave to the run's files what it cannot deliver, where that can be sent later."""
        if sink.destination.takes_otlp:
            sink.keep = self.keep

    def keep(self, sink: Sink, data: Any, *, unanswered: bool) -> bool:
        """Keep in the run's files what ``sink`` could not deliver; False where the signal goes to files anyway."""
        if any(other.signal == sink.signal and other.destination.is_file for other in self.sinks):
            return False
        if self.undelivered is None:
            try:
                from otel_rl.pipeline.undelivered import Undelivered  # noqa: PLC0415 - loaded with the OTLP exporters
            except Exception:  # noqa: BLE001 - they could not be loaded either: no descriptor left, another root
                return False
            self.undelivered = Undelivered(
                self.files,
                lambda signal: exporters.open_exporter(signal, exporter_selection.FILE, self.store.files),
            )
        return self.undelivered.keep(sink, data, unanswered=unanswered)

    def wake_readers(self) -> None:
        """Something has been measured: begin to collect metrics."""
        for reader in self.readers:
            reader.wake()

    def begin(self) -> None:
        """Note the first record of any scope, ours or not: the run has something to report."""
        self.wake_readers()
        run_span.touch()

    def arm(self) -> None:
        """Begin to collect metrics with the first measurement."""
        if self.meter_provider is not None and self.readers:
            wake_at_first_measurement(self.meter_provider, self.wake_readers)

    def accept_posts(self) -> None:
        """Let the I/O thread record the spans of steps, where ids and sampling do not depend on when it does."""
        provider = self.tracer_provider
        thread = next((thread for thread in (self.files, self.network) if thread.tasks), None)
        if (
            thread is not None
            and provider is get_tracer_provider()
            and isinstance(provider.id_generator, IdGenerator)
            and _parent_decides(provider.sampler)
        ):
            deferral.accept_posts(thread)
        else:
            deferral.accept_posts(None)

    def after_fork_in_child(self) -> None:
        """Reset queues, threads, exporters and files: they belong to the parent."""
        # First: what follows may start a thread, which must not take the parent's directory for the child's.
        provider = self.tracer_provider or self.logger_provider
        self.store.after_fork_in_child(provider.resource if provider is not None else Resource.get_empty())
        self.gate.after_fork_in_child()
        outage.after_fork_in_child()
        for thread in self.threads:
            thread.after_fork_in_child()
        for part in self.parts:
            part.after_fork_in_child()
        if self.undelivered is not None:
            self.undelivered.after_fork_in_child()
        if self.meter_provider is not None:
            forget_measurements(self.meter_provider, self.readers)
        start_times.after_fork_in_child()

    def queue(
        self,
        sink: Sink,
        limits: Limits,
        prepare: Callable[[Any], None] = lambda _: None,
        weigh: Callable[[Any], int] = lambda _: 1,
    ) -> BatchQueue[Any]:
        """Return a queue in front of ``sink``, on the thread that it belongs to."""
        self.keep_undelivered(sink)
        queue: BatchQueue[Any] = BatchQueue(
            sink, self.thread_of(sink.destination), self.gate, limits, self.begin, prepare, weigh
        )
        self.queues.append(queue)
        return queue


def build(chosen: exporter_selection.Plan, resource: Resource) -> Telemetry:
    """Set up the providers of ``chosen`` and make them the global ones."""
    telemetry = Telemetry(ProcessStore(resource))
    readers = [reader for name in chosen.exporters["metrics"] if (reader := _reader(name, telemetry))]
    telemetry.readers += [reader for reader in readers if isinstance(reader, LazyMetricReader)]
    private_random.isolate()
    python_warnings.keep_filters()
    telemetry.tracer_provider = TracerProvider(
        resource=resource,
        shutdown_on_exit=False,
        active_span_processor=IsolatedSpanProcessors(),
        id_generator=_id_generator(),
        sampler=_custom_sampler(),
        span_limits=None
        if any(map(os.environ.get, _LENGTH_LIMITS))
        else SpanLimits(max_attribute_length=sdk_length_limit()),
        **_configurator("tracer"),
    )
    telemetry.meter_provider = MeterProvider(readers, resource, shutdown_on_exit=False, **_configurator("meter"))
    telemetry.logger_provider = LoggerProvider(resource, shutdown_on_exit=False, **_configurator("logger"))
    _add_processors(telemetry, chosen)
    set_tracer_provider(telemetry.tracer_provider)
    set_meter_provider(telemetry.meter_provider)
    set_logger_provider(telemetry.logger_provider)
    _report_refusal(telemetry)
    telemetry.arm()
    telemetry.accept_posts()
    program_log.record(telemetry.logger_provider)
    return telemetry


def _report_refusal(telemetry: Telemetry) -> None:
    """Report signals whose provider the API refused, because a sitecustomize of the user has set one first."""
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


def _add_processors(telemetry: Telemetry, chosen: exporter_selection.Plan) -> None:
    tracer_provider, logger_provider = telemetry.tracer_provider, telemetry.logger_provider
    if tracer_provider is None or logger_provider is None:
        return
    tracer_provider.add_span_processor(BaggageSpanProcessor())
    logger_provider.add_log_record_processor(BaggageLogRecordProcessor())
    if settings.current().redact is not None:
        from otel_rl.pipeline.redaction import (  # noqa: PLC0415 - rarely asked for
            RedactingLogRecordProcessor,
            RedactingSpanProcessor,
        )

        tracer_provider.add_span_processor(RedactingSpanProcessor())
        logger_provider.add_log_record_processor(RedactingLogRecordProcessor())
    for name in chosen.exporters["traces"]:
        queue = telemetry.queue(
            _sink("traces", name, telemetry), _limits("OTEL_BSP", Limits(delay=5.0)), mark_truncation
        )
        tracer_provider.add_span_processor(QueueSpanProcessor(queue))
    for name in chosen.exporters["logs"]:
        queue = telemetry.queue(_sink("logs", name, telemetry), _limits("OTEL_BLRP", Limits(delay=1.0)), weigh=weight)
        logger_provider.add_log_record_processor(QueueLogRecordProcessor(queue))


def _limits(prefix: str, default: Limits) -> Limits:
    queue = max(int(_number_from_environment(f"{prefix}_MAX_QUEUE_SIZE", default.queue)), 1)
    return Limits(
        queue,
        min(max(int(_number_from_environment(f"{prefix}_MAX_EXPORT_BATCH_SIZE", default.batch)), 1), queue),
        max(_number_from_environment(f"{prefix}_SCHEDULE_DELAY", default.delay * 1000) / 1000, 0.001),
    )


def _destination(signal: str, name: str) -> Destination:
    words = exporter_selection.destination(os.environ, signal, name)
    return Destination(name, words, is_file=name == exporter_selection.FILE)


def _sink(signal: str, name: str, telemetry: Telemetry) -> Sink:
    opens = partial(_open, signal, name, telemetry.store)
    return Sink(signal, _destination(signal, name), opens, count_points if signal == "metrics" else len)


def _open(signal: str, name: str, store: ProcessStore) -> Any:
    with exporters.opening, python_warnings.remembered():
        exporter = exporters.open_exporter(signal, name, store.files)
        private_random.isolate()
    return exporter


def _opened_first(name: str, store: ProcessStore) -> Any:
    """Return metric exporter ``name``; None where it cannot be opened: the other signals go on without it."""
    try:
        return _open("metrics", name, store)
    except Exception as error:  # noqa: BLE001 - a port that another process has, an exporter of anybody's
        # The first rank of a node has the port, the second one meets it, and so do the others.
        if process_identity.current().local_rank in (None, 0, 1):
            reason = addresses.without_secrets(f"{type(error).__name__}: {error}")
            stderr.write_line(
                f"otel-rl: the metric exporter {name} could not be opened ({reason}); this process exports no metrics"
                f" with it, everything else goes on{_WAYS_OUT.get(name, '')}"
            )
        return None


def _reader(name: str, telemetry: Telemetry) -> MetricReader | None:
    sink = _sink("metrics", name, telemetry)
    telemetry.keep_undelivered(sink)
    temporality = aggregation = None
    if exporters.metric_exporter_is_asked_first(name, os.environ):
        exporter = _opened_first(name, telemetry.store)
        if exporter is None or isinstance(exporter, MetricReader):
            return exporter
        temporality, aggregation = exporter._preferred_temporality, exporter._preferred_aggregation  # noqa: SLF001
        sink.adopt(exporter)
    return LazyMetricReader(
        sink,
        telemetry.thread_of(sink.destination),
        telemetry.gate,
        max(_number_from_environment("OTEL_METRIC_EXPORT_INTERVAL", METRIC_INTERVAL * 1000) / 1000, 0.01),
        max(_number_from_environment("OTEL_METRIC_EXPORT_TIMEOUT", METRIC_TIMEOUT * 1000) / 1000, 0.01),
        temporality,
        aggregation,
    )


def _number_from_environment(variable: str, default: float) -> float:
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

    try:
        return _import_id_generator(name)
    except Exception as error:  # noqa: BLE001 - a generator of anybody's
        if process_identity.current().leads:
            stderr.write_line(f'otel-rl: OTEL_PYTHON_ID_GENERATOR="{name}" cannot be used ({error}); using random ids')
        return IdGenerator()


def _custom_sampler() -> Any:
    """Return a sampler from somebody's entry point; the SDK's own ones are found by the provider itself."""
    from opentelemetry.sdk.trace.sampling import _KNOWN_SAMPLERS  # noqa: PLC0415 - no public list

    name = os.environ.get("OTEL_TRACES_SAMPLER", "").strip()
    if not name or name.lower() in _KNOWN_SAMPLERS:
        return None
    from opentelemetry.sdk._configuration import _import_sampler  # noqa: PLC0415 - costly, rarely needed

    return _import_sampler(name)


def _parent_decides(sampler: Any) -> bool:
    """Return whether a span is sampled exactly if its parent in this process is."""
    if isinstance(sampler, ParentBased):
        return sampler._local_parent_sampled is ALWAYS_ON  # noqa: SLF001 - no public way to ask
    return isinstance(sampler, StaticSampler | TraceIdRatioBased)


def _configurator(kind: str) -> dict[str, Any]:
    """Return the experimental ``OTEL_PYTHON_{TRACER,METER,LOGGER}_CONFIGURATOR``."""
    name = os.environ.get(f"OTEL_PYTHON_{kind.upper()}_CONFIGURATOR")
    if not name:
        return {}
    from opentelemetry.sdk import _configuration  # noqa: PLC0415 - costly, rarely needed

    return {f"_{kind}_configurator": getattr(_configuration, f"_import_{kind}_configurator")(name)}
