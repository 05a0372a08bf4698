"""One OpenTelemetry instrumentation scope: the only way instrumentors record anything.

Instrumentors describe *what* happened with definitions from ``otel_rl.semconv``; tracer, meter and logger stay here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from opentelemetry import _logs as logs_api
from opentelemetry import metrics as metrics_api
from opentelemetry import trace as trace_api
from opentelemetry.metrics import Observation
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation import set_span_in_context

from otel_rl import clock
from otel_rl.internal_errors import guard
from otel_rl.semconv import SCHEMA_URL, attributes
from otel_rl.telemetry import attribute_values, drops, lifecycle, sampling
from otel_rl.telemetry.context import attach, detach
from otel_rl.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextvars import Token
    from types import TracebackType

    from opentelemetry._logs import SeverityNumber
    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions
    from opentelemetry.trace import Link, Span

    from otel_rl.semconv.definitions import EventDefinition, MetricDefinition, SpanDefinition

    Attributes = Mapping[str, Any]
    Observe = Callable[[], Iterable[tuple[float, Attributes]]]

#: When each observable metric was registered, ns since the epoch: its series begin there.
observed_since: dict[str, int] = {}

_KINDS = {kind.name.lower(): kind for kind in SpanKind}


def enabled() -> bool:
    """True when a tracer provider has been set; to be asked first, since even a dropped span costs microseconds."""
    return trace_api._TRACER_PROVIDER is not None  # noqa: SLF001 - get_tracer_provider() would create a provider


class Scope:
    """Spans, metrics and events of one instrumented library (scope name ``otel_rl.<library>``).

    Every method is guarded: none raises, whatever is given to it.
    """

    def __init__(self, library: str) -> None:
        self.name = f"otel_rl.{library}"
        self._tracer: trace_api.Tracer | None = None
        self._meter: metrics_api.Meter | None = None
        self._logger: logs_api.Logger | None = None
        self._record: dict[str, Callable[..., None]] = {}
        self._observed: set[str] = set()

    @property
    def enabled(self) -> bool:
        """Whether anything recorded here can go anywhere."""
        return enabled()

    @property
    def tracer(self) -> trace_api.Tracer:
        """For telemetry/ only."""
        if self._tracer is None:
            self._tracer = trace_api.get_tracer(self.name, __version__, schema_url=SCHEMA_URL)
            lifecycle.run_first_record_callbacks()
        return self._tracer

    def _get_meter(self) -> metrics_api.Meter:
        if self._meter is None:
            self._meter = metrics_api.get_meter(self.name, __version__, schema_url=SCHEMA_URL)
        return self._meter

    # -- spans -------------------------------------------------------------------------------------------------

    def start_span(
        self,
        definition: SpanDefinition,
        name: str | None = None,
        *,
        attributes: Attributes | None = None,
        context: Context | None = None,
        links: Sequence[Link] = (),
        start_time: int | None = None,
    ) -> Span:
        """Start a span without making it current; :meth:`end_span` ends it. ``start_time`` in ns since the epoch."""
        with guard(f"{self.name}.start_span"):
            if enabled():
                return self.tracer.start_span(
                    name or definition.type,
                    context=context,
                    kind=_KINDS[definition.kind],
                    attributes=attribute_values.clean(attributes),
                    links=links,
                    start_time=start_time,
                    record_exception=False,
                    set_status_on_exception=False,
                )
        return trace_api.INVALID_SPAN

    def end_span(self, span: Span, error: BaseException | str | None = None, end_time: int | None = None) -> None:
        """End ``span``; an error (or an ``error.type`` given as text) sets ``error.type`` and status ERROR.

        The exception's message is not recorded: it may hold prompts or secrets. The uncaught one is an event.
        """
        with guard(f"{self.name}.end_span"):
            if error is not None and span.is_recording():
                kind = error if isinstance(error, str) else attribute_values.error_type(error)
                span.set_attribute(attributes.ERROR_TYPE, kind)
                span.set_status(Status(StatusCode.ERROR, kind))
            sampling.pass_on(span)
            span.end(end_time)

    def span(
        self,
        definition: SpanDefinition,
        name: str | None = None,
        *,
        attributes: Attributes | None = None,
        context: Context | None = None,
        links: Sequence[Link] = (),
    ) -> SpanInContext:
        """``with scope.span(...) as span``: current inside the block, ended after it, any BaseException recorded."""
        return SpanInContext(self, definition, name, attributes, context, links)

    # -- metrics -----------------------------------------------------------------------------------------------

    def record(
        self,
        metric: MetricDefinition,
        value: float,
        attributes: Attributes | None = None,
        context: Context | None = None,
    ) -> None:
        """Add to a counter, record in a histogram or set a gauge, as ``metric`` defines; units are the definition's."""
        with guard(f"{self.name}.record"):
            if not enabled():
                return
            if not math.isfinite(value):
                drops.count("metrics", "non_finite")
                return
            record = self._record.get(metric.name)
            if record is None:
                record = self._record[metric.name] = self._create(metric)
            record(value, attribute_values.clean(attributes), context)

    def _create(self, metric: MetricDefinition) -> Callable[..., None]:
        meter = self._get_meter()
        if metric.instrument == "counter":
            return meter.create_counter(metric.name, metric.unit, metric.description).add
        if metric.instrument == "updowncounter":
            return meter.create_up_down_counter(metric.name, metric.unit, metric.description).add
        if metric.instrument == "gauge":
            return meter.create_gauge(metric.name, metric.unit, metric.description).set
        return meter.create_histogram(
            metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=metric.boundaries
        ).record

    def observe(self, metric: MetricDefinition, callback: Observe) -> None:
        """Register ``callback() -> [(value, attributes), ...]``, asked at each export; once per metric."""
        with guard(f"{self.name}.observe"):
            if metric.name in self._observed:
                return
            self._observed.add(metric.name)
            observed_since.setdefault(metric.name, clock.now())

            def observations(_: CallbackOptions) -> Iterable[Observation]:
                with guard(f"{self.name}.{metric.name}"):
                    return [Observation(value, dict(values)) for value, values in callback()]
                return []

            meter = self._get_meter()
            create = meter.create_observable_gauge if metric.instrument == "gauge" else meter.create_observable_counter
            create(metric.name, [observations], metric.unit, metric.description)

    # -- events ------------------------------------------------------------------------------------------------

    def event(
        self,
        definition: EventDefinition,
        *,
        body: Any = None,
        attributes: Attributes | None = None,
        severity: SeverityNumber | None = None,
        context: Context | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Emit a log record with ``event_name``; ``timestamp`` in ns since the epoch, default now."""
        with guard(f"{self.name}.event"):
            if not enabled():
                return
            if self._logger is None:
                self._logger = logs_api.get_logger(self.name, __version__, schema_url=SCHEMA_URL)
            number = severity or logs_api.SeverityNumber.INFO
            self._logger.emit(
                timestamp=timestamp or clock.now(),
                context=context,
                severity_number=number,
                severity_text=number.name,
                body=body,
                attributes=attribute_values.clean(attributes),
                event_name=definition.name,
            )


def _restart_counting() -> None:
    now = clock.now()
    for name in observed_since:
        observed_since[name] = now


# A forked child counts anew, so its series begin at the fork.
lifecycle.after_fork_in_child(_restart_counting)


class SpanInContext:
    """Context manager behind :meth:`Scope.span`."""

    __slots__ = ("_arguments", "_scope", "_token", "span")

    def __init__(
        self,
        scope: Scope,
        definition: SpanDefinition,
        name: str | None,
        attributes: Attributes | None,
        context: Context | None,
        links: Sequence[Link],
    ) -> None:
        self._scope = scope
        self._arguments = (definition, name, attributes, context, links)
        self._token: Token[Context] | None = None
        self.span: Span = trace_api.INVALID_SPAN

    def __enter__(self) -> Span:
        definition, name, attributes, context, links = self._arguments
        if enabled():
            self.span = self._scope.start_span(definition, name, attributes=attributes, context=context, links=links)
            with guard(f"{self._scope.name}.attach"):
                self._token = attach(set_span_in_context(self.span, context))
        return self.span

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            with guard(f"{self._scope.name}.detach"):
                detach(self._token)
        self._scope.end_span(self.span, error)
