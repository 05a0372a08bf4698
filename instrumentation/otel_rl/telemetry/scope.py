"""One OpenTelemetry instrumentation scope: the only way instrumentors record anything.

Instrumentors describe *what* happened with definitions from ``otel_rl.semconv``; tracer, meter and logger stay here.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from opentelemetry import _logs as logs_api
from opentelemetry import metrics as metrics_api
from opentelemetry import trace as trace_api
from opentelemetry.context import get_current
from opentelemetry.metrics import Observation
from opentelemetry.trace import SpanKind, Status, StatusCode

from otel_rl.core import __version__, clock
from otel_rl.core.guard import guard, raised_by_signal_handler
from otel_rl.semconv import SCHEMA_URL, attributes
from otel_rl.telemetry import (
    attribute_values,
    cardinality_budgets,
    deferral,
    drops,
    histograms,
    ids,
    lifecycle,
    sampling,
)
from otel_rl.telemetry.deferred_span import DeferredSpan, below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opentelemetry._logs import SeverityNumber
    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions
    from opentelemetry.trace import Link, Span, SpanContext

    from otel_rl.semconv.definitions import EventDefinition, MetricDefinition, SpanDefinition
    from otel_rl.telemetry.open_spans import LateAttributes

    Attributes = Mapping[str, Any]
    Observe = Callable[[], Iterable[tuple[float, Attributes]]]

#: When each observable metric was registered, ns since the epoch: its series begin there.
observed_since: dict[str, int] = {}

_KINDS = {kind.name.lower(): kind for kind in SpanKind}
_SITES = ("start_span", "end_span", "record", "observe", "event")
#: Longest name of a span or event in characters: backends index names.
MAXIMUM_NAME_LENGTH = 1024
#: Largest value of a measurement; OTLP carries doubles and 64-bit integers.
_LARGEST = sys.float_info.max
_thread = deferral.thread


def enabled() -> bool:
    """Return whether a tracer provider has been set; ask it first, since even a dropped span costs microseconds."""
    return trace_api._TRACER_PROVIDER is not None  # noqa: SLF001 - get_tracer_provider() would create a provider


def has_our_provider(span: Span) -> bool:
    """Return whether a span of whoever leaves with ours; Logfire, for one, has a provider of its own."""
    processor = getattr(trace_api.get_tracer_provider(), "_active_span_processor", None)
    return processor is None or getattr(span, "_span_processor", None) is processor


def _late_attributes(tracer: trace_api.Tracer) -> LateAttributes | None:
    """None without the SDK, and where nothing more can be imported: no descriptor left, or a chroot."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return None
    try:
        from otel_rl.telemetry.open_spans import LateAttributes  # noqa: PLC0415 - needs the SDK
    except Exception as error:
        # A descriptor, a file or an audit hook.
        if raised_by_signal_handler(error):
            raise
        return None
    return LateAttributes(tracer)


class Scope:
    """Spans, metrics and events of one instrumented library (scope name ``otel_rl.<library>``).

    Every method is guarded: none raises, whatever is given to it. Names and values are made plain, valid and short
    here, and the budgets of metric attributes are kept here. While a method is inside the SDK its thread is marked:
    what a signal handler or finaliser records meanwhile waits (see :mod:`otel_rl.telemetry.deferral`).
    """

    def __init__(self, library: str) -> None:
        self.name = f"otel_rl.{library}"
        self._tracer: trace_api.Tracer | None = None
        #: Says whether spans may get their attributes after their start; None where the tracer is not the SDK's.
        self._late: LateAttributes | None = None
        self._meter: metrics_api.Meter | None = None
        self._logger: logs_api.Logger | None = None
        self._record: dict[str, Callable[..., None]] = {}
        self._observed: set[str] = set()
        self._guards = {site: guard(f"{self.name}.{site}") for site in _SITES}

    @property
    def enabled(self) -> bool:
        """True when a tracer provider has been set, so that records can be exported."""
        return enabled()

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
        with self._guards["start_span"]:
            if enabled():
                return self.begin_span(
                    name or definition.type,
                    context,
                    _KINDS[definition.kind],
                    attribute_values.clean(attributes),
                    links,
                    start_time,
                )
        return trace_api.INVALID_SPAN

    def start_posted_span(
        self,
        definition: SpanDefinition,
        attributes: Attributes,
        context: Context,
        links: Sequence[Link] = (),
        *,
        own: SpanContext | None = None,
        start_time: int | None = None,
    ) -> Span:
        """Like :meth:`start_span`; where possible an I/O thread records it after its end.

        That needs such a thread, and a decision on sampling: the parent's, or in ``own``, the ids of a root. Otherwise
        the span starts here. May raise.
        """
        decided = own or trace_api.get_current_span(context).get_span_context()
        if deferral.posting() and decided.is_valid and (own is None or own.trace_flags.sampled):
            kind = _KINDS[definition.kind]
            own = own or below(decided)
            return DeferredSpan(
                self.begin_span, definition.type, context, kind, attributes, links, start_time, own, deferral.post
            )
        pinned = ids.pinned(ids.SpanIds(own.trace_id, own.span_id)) if own is not None else nullcontext()
        with pinned:
            return self.start_span(
                definition, attributes=attributes, context=context, links=links, start_time=start_time
            )

    def begin_span(
        self,
        name: str,
        context: Context | None,
        kind: SpanKind,
        attributes: Attributes,
        links: Sequence[Link] = (),
        start_time: int | None = None,
    ) -> Span:
        """Like :meth:`start_span` for boundaries that clean and guard by themselves; asks nothing, may raise."""
        if type(name) is not str or len(name) > MAXIMUM_NAME_LENGTH or not name.isascii() or "\0" in name:
            name = attribute_values.text(str(name), MAXIMUM_NAME_LENGTH)
        if _thread.inside or deferral.forks:
            return DeferredSpan(
                self.begin_span,
                name,
                get_current() if context is None else context,
                kind,
                attributes,
                links,
                start_time,
            )
        if self._tracer is None:
            self._make_tracer()
        tracer: trace_api.Tracer = self._tracer  # type: ignore[assignment]  # made above
        late = self._late
        _thread.inside = True
        try:
            if late is None or not late.may_come(attributes):
                return tracer.start_span(name, context, kind, attributes, links, start_time, False, False)
            span = tracer.start_span(name, context, kind, None, links, start_time, False, False)
            late.add(span, attributes)
            return span
        finally:
            _thread.inside = False

    def _make_tracer(self) -> None:
        with deferral.inside_sdk():
            self._tracer = trace_api.get_tracer(self.name, __version__, schema_url=SCHEMA_URL)
            self._late = _late_attributes(self._tracer)
        lifecycle.run_first_record_callbacks()

    def end_span(self, span: Span, error: BaseException | str | None = None, end_time: int | None = None) -> None:
        """End ``span``; an error (or an ``error.type`` given as text) sets ``error.type`` and status ERROR.

        The exception's message is not recorded: it may hold prompts or secrets. The uncaught one is an event.
        """
        with self._guards["end_span"]:
            if isinstance(error, BaseException):
                error = attribute_values.error_type(error)
            if _thread.inside or deferral.forks:
                moment = end_time or clock.now()
                deferral.later("traces", lambda: self.end_span(span, error, moment))
                return
            _thread.inside = True
            try:
                if error is not None and span.is_recording():
                    kind = attribute_values.text(error)
                    span.set_attribute(attributes.ERROR_TYPE, kind)
                    span.set_status(Status(StatusCode.ERROR, kind))
                sampling.pass_on(span)
                span.end(end_time)
            finally:
                _thread.inside = False
            if deferral.pending:
                deferral.drain()

    # -- metrics -----------------------------------------------------------------------------------------------

    def record(
        self,
        metric: MetricDefinition,
        value: float,
        attributes: Attributes | None = None,
        context: Context | None = None,
    ) -> None:
        """Add to a counter, record in a histogram or set a gauge, as ``metric`` defines; units are the definition's.

        Values of attributes beyond the budget of the registry become ``_OTHER``; the measurement of a gauge is dropped.
        """
        with self._guards["record"]:
            if not enabled():
                return
            if type(value) is not float and type(value) is not int:
                number = attribute_values.number(value)
                if number is None:
                    drops.count("metrics", "unsupported_type")
                    return
                value = number
            if not -_LARGEST <= value <= _LARGEST:  # so it is for NaN too
                drops.count("metrics", "non_finite")
                return
            values = cardinality_budgets.labels(metric, attributes) if attributes else {}
            if values is None:
                return
            self.measure_or_defer(metric, value, values, context)

    def measure_or_defer(
        self, metric: MetricDefinition, value: float, labels: Attributes, context: Context | None = None
    ) -> None:
        """Like :meth:`measure`, later where this thread is inside the SDK."""
        if _thread.inside or deferral.forks:
            context = get_current() if context is None else context
            deferral.later("metrics", lambda: self.measure(metric, value, labels, context))
        else:
            self.measure(metric, value, labels, context)

    def record_all(
        self,
        metric: MetricDefinition,
        values: Sequence[float],
        attributes: Attributes | None = None,
        context: Context | None = None,
    ) -> None:
        """Record many floats with the same attributes in a histogram; only the first one has an exemplar."""
        with self._guards["record"]:
            finite = [value for value in values if -_LARGEST <= value <= _LARGEST]
            if len(finite) < len(values):
                drops.count("metrics", "non_finite", len(values) - len(finite))
            labels = cardinality_budgets.labels(metric, attributes) if attributes else {}
            if not finite or labels is None or not enabled():
                return
            if _thread.inside or deferral.forks:
                deferral.later("metrics", lambda: self.measure_all(metric, finite, labels, context))
            else:
                self.measure_all(metric, finite, labels, context)

    def measure_all(
        self, metric: MetricDefinition, values: Sequence[float], labels: Attributes, context: Context | None
    ) -> None:
        """Like :meth:`record_all` for values and labels that are checked; may raise."""
        with deferral.inside_sdk():
            histogram = self._recorder(metric)
            if isinstance(histogram, histograms.Histogram):
                histogram.record_all(values, labels, context)
            else:
                for value in values:
                    histogram(value, labels, context)
        if deferral.pending:
            deferral.drain()

    def measure(self, metric: MetricDefinition, value: float, labels: Attributes, context: Context | None) -> None:
        """Like :meth:`record` for boundaries that check value and labels by themselves; may raise."""
        _thread.inside = True
        try:
            record = self._record.get(metric.name) or self._recorder(metric)
            record(value, labels, context)
        finally:
            _thread.inside = False
        if deferral.pending:
            deferral.drain()

    def _recorder(self, metric: MetricDefinition) -> Callable[..., None]:
        record = self._record.get(metric.name)
        if record is None:
            record = self._record[metric.name] = self._create(metric)
        return record

    def _get_meter(self) -> metrics_api.Meter:
        if self._meter is None:
            self._meter = metrics_api.get_meter(self.name, __version__, schema_url=SCHEMA_URL)
        return self._meter

    def _create(self, metric: MetricDefinition) -> Callable[..., None]:
        meter = self._get_meter()
        if metric.instrument == "counter":
            return meter.create_counter(metric.name, metric.unit, metric.description).add
        if metric.instrument == "updowncounter":
            return meter.create_up_down_counter(metric.name, metric.unit, metric.description).add
        if metric.instrument == "gauge":
            return meter.create_gauge(metric.name, metric.unit, metric.description).set
        return histograms.Histogram(
            meter.create_histogram(
                metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=metric.boundaries
            )
        )

    def observe(self, metric: MetricDefinition, callback: Observe) -> None:
        """Register ``callback() -> [(value, attributes), ...]``, asked at each export; once per metric."""
        with self._guards["observe"]:
            if metric.name in self._observed:
                return
            self._observed.add(metric.name)
            observed_since.setdefault(metric.name, clock.now())
            if _thread.inside or deferral.forks:
                deferral.later("metrics", lambda: self._register(metric, callback))
            else:
                self._register(metric, callback)

    def _register(self, metric: MetricDefinition, callback: Observe) -> None:
        site = guard(f"{self.name}.{metric.name}")

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            observations: list[Observation] = []
            with site:
                for value, values in callback():
                    labels = cardinality_budgets.labels(metric, values)
                    if labels is not None:
                        observations.append(Observation(value, labels))
            return observations

        with deferral.inside_sdk():
            meter = self._get_meter()
            create = {
                "gauge": meter.create_observable_gauge,
                "updowncounter": meter.create_observable_up_down_counter,
            }.get(metric.instrument, meter.create_observable_counter)
            create(metric.name, [observe], metric.unit, metric.description)

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
        with self._guards["event"]:
            if not enabled():
                return
            number = severity or logs_api.SeverityNumber.INFO
            record = {
                "timestamp": timestamp or clock.now(),
                "context": context,
                "severity_number": number,
                "severity_text": number.name,
                "body": body if type(body) is attribute_values.PlainBody else attribute_values.plain(body),
                "attributes": attribute_values.clean(attributes, "logs"),
                "event_name": attribute_values.text(str(definition.name), MAXIMUM_NAME_LENGTH),
            }
            if _thread.inside or deferral.forks:
                record["context"] = get_current() if context is None else context
                deferral.later("logs", lambda: self._emit(record))
            else:
                self._emit(record)

    def _emit(self, record: dict[str, Any]) -> None:
        with deferral.inside_sdk():
            if self._logger is None:
                self._logger = logs_api.get_logger(self.name, __version__, schema_url=SCHEMA_URL)
            self._logger.emit(**record)
        if deferral.pending:
            deferral.drain()


def _restart_counting() -> None:
    now = clock.now()
    for name in observed_since:
        observed_since[name] = now


# A forked child counts anew, so its series begin at the fork.
lifecycle.after_fork_in_child(_restart_counting)
