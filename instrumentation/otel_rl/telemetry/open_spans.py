# ruff: noqa: SLF001 - what `add` describes has no public way
"""What is added to a span while it is open, whoever has opened it, and to one of ours just after its start."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace import SpanProcessor, SynchronousMultiSpanProcessor, Tracer
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, StaticSampler, TraceIdRatioBased
from opentelemetry.trace import Status, StatusCode

from otel_rl.semconv import attributes
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH, text
from otel_rl.telemetry.correlation import BaggageSpanProcessor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import Span

_set_attributes = SdkSpan.set_attributes
#: Samplers that decide without the attributes of a span, with their subclasses in the SDK; and those that they ask.
_SAMPLERS = (StaticSampler, TraceIdRatioBased, ParentBased)
_ASKED = (
    "_root",
    "_remote_parent_sampled",
    "_remote_parent_not_sampled",
    "_local_parent_sampled",
    "_local_parent_not_sampled",
)
#: What processors do at the start of a span where they do not look at its attributes, or only for what is not there.
_STARTS = {one.on_start for one in (SpanProcessor, BatchSpanProcessor, SimpleSpanProcessor, BaggageSpanProcessor)}
#: Attributes that the SDK keeps as they are.
_PLAIN = frozenset({str, int, float, bool})


class LateAttributes:
    """Says whether spans of a tracer may get their attributes just after their start, by :meth:`add`.

    The SDK looks at each attribute that it is given at the start, which takes time. Samplers and processors may look at
    them too; those of the SDK and ours do not. Ask for each span: a processor may be added at any time.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer if type(tracer) is Tracer else None
        self._processors: object = None
        self._sampler: object = None
        self._may = False

    def may_come(self, values: Mapping[str, Any]) -> bool:
        """True where these, which are clean, may be added after the start."""
        tracer = self._tracer
        if tracer is None:
            return False
        try:
            processors = tracer.span_processor._span_processors
        except AttributeError:
            return False
        if processors is not self._processors or tracer.sampler is not self._sampler:
            self._processors, self._sampler = processors, tracer.sampler
            self._may = (
                type(tracer.span_processor) is SynchronousMultiSpanProcessor
                and all(type(one).on_start in _STARTS for one in processors)
                and _decides_without(tracer.sampler)
            )
        return self._may and _PLAIN.issuperset(map(type, values.values()))

    @staticmethod
    def add(span: Span, values: Mapping[str, Any]) -> None:
        """Give ``span``, which has just begun, its attributes."""
        add(span, values)


def _decides_without(sampler: object) -> bool:
    if not isinstance(sampler, _SAMPLERS) or type(sampler).__module__ != StaticSampler.__module__:
        return False
    return all(_decides_without(getattr(sampler, name)) for name in _ASKED if hasattr(sampler, name))


def add(span: Span, values: Mapping[str, Any]) -> None:
    """Like ``span.set_attributes``, for values that are clean and bounded already.

    Each is a bool, number or text of at most ``MAXIMUM_LENGTH`` characters, or a tuple of these. The SDK would look at
    each once more (``opentelemetry.attributes._clean_attribute_value``, API 1.44 and 1.45), which takes several times
    as long as keeping it. So they are put where the SDK keeps them, under its locks. Where its internals differ, or a
    limit of the user may apply, ``span.set_attributes`` takes them.
    """
    if type(span).set_attributes is not _set_attributes or not _add_below(span, values):
        span.set_attributes(values)


def _add_below(span: Any, values: Mapping[str, Any]) -> bool:
    try:
        held = span._attributes
        with span._lock:
            if span._end_time is not None or type(held) is not BoundedAttributes or held._immutable:
                return False
            most, longest, known = held.maxlen, held.max_value_len, held._dict
            if most is not None and len(known) + len(values) > most:
                return False
            if longest is not None and longest < MAXIMUM_LENGTH:
                return False
            with held._lock:
                known.update(values)
    except AttributeError:
        return False
    return True


def mark_error(span: Span, kind: str) -> None:
    """Make ``span`` an error of type ``kind`` without ending it."""
    if span.is_recording():
        kind = text(kind)
        span.set_attribute(attributes.ERROR_TYPE, kind)
        span.set_status(Status(StatusCode.ERROR, kind))


def clear_error(span: Any) -> None:
    """Undo :func:`mark_error` of the open ``span``, and nothing that somebody else has said of it.

    The SDK takes an error back only for a status of ``OK``, which would be a statement of the program's.
    """
    with suppress(AttributeError), span._lock:
        known = span._attributes
        kind = known.get(attributes.ERROR_TYPE)
        if span._end_time is None and kind is not None and span._status.description == kind:
            span._status = Status(StatusCode.UNSET)
            del known[attributes.ERROR_TYPE]
