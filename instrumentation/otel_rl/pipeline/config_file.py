"""Providers that ``OTEL_CONFIG_FILE`` has set up: completed with what no file can know, never overridden."""

from __future__ import annotations

from typing import Any

from opentelemetry import _logs as logs_api
from opentelemetry import metrics as metrics_api
from opentelemetry import trace as trace_api
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from otel_rl.internal_errors import guard
from otel_rl.pipeline import private_random, python_warnings, resource
from otel_rl.process import process_identity
from otel_rl.telemetry import self_metrics
from otel_rl.telemetry.correlation import BaggageLogRecordProcessor, BaggageSpanProcessor
from otel_rl.telemetry.ids import IdGenerator


def providers() -> list[Any]:
    """The global providers that come from an SDK."""
    found = (trace_api._TRACER_PROVIDER, metrics_api._internal._METER_PROVIDER, logs_api._internal._LOGGER_PROVIDER)  # noqa: SLF001
    return [provider for provider in found if provider is not None and hasattr(provider, "shutdown")]


def complete_providers() -> None:
    """Run identity on the resource (the file's own attributes win), step trace ids, baggage, private random numbers."""
    private_random.isolate()
    python_warnings.keep_filters()
    tracer_provider = trace_api._TRACER_PROVIDER  # noqa: SLF001 - the public function would create one
    with guard("configured.tracer_provider"):
        if isinstance(getattr(tracer_provider, "id_generator", None), RandomIdGenerator):
            tracer_provider.id_generator = IdGenerator()  # type: ignore[union-attr]
        if hasattr(tracer_provider, "add_span_processor"):
            _put_first(tracer_provider, "_active_span_processor", "_span_processors", BaggageSpanProcessor())
    with guard("configured.logger_provider"):
        logger_provider = logs_api._internal._LOGGER_PROVIDER  # noqa: SLF001
        if hasattr(logger_provider, "add_log_record_processor"):
            _put_first(
                logger_provider, "_multi_log_record_processor", "_log_record_processors", BaggageLogRecordProcessor()
            )
    _follow_identity()
    process_identity.add_listener(_follow_identity)
    self_metrics.register()


def _put_first(provider: Any, holder: str, name: str, processor: Any) -> None:
    """Before the exporting processors: a log record is copied when it reaches them."""
    multi = getattr(provider, holder)
    setattr(multi, name, (processor, *getattr(multi, name)))


def _follow_identity(_: process_identity.Run | None = None) -> None:
    known = resource.identity_attributes()
    for provider in providers():
        with guard("configured.resource"):
            current = getattr(provider, "_resource", None) or provider._sdk_config.resource  # noqa: SLF001
            missing = {key: value for key, value in known.items() if _ours(key, value, current)}
            provider._update_resource(Resource(missing))  # noqa: SLF001 - no public way to complete a resource


_written: dict[str, Any] = {}


def _ours(key: str, value: Any, current: Resource) -> bool:
    """Whether we may set ``key``: the file has not, or the value there is one of ours."""
    there = current.attributes.get(key)
    mine = there is None or there == _written.get(key, object())
    if mine:
        _written[key] = value
    return mine
