# ruff: noqa: SLF001 - what `add` describes has no public way
"""What is added to a span while it is open, whoever has opened it, and to one of ours just after its start."""

from __future__ import annotations

import sys
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace import SpanProcessor, SynchronousMultiSpanProcessor, Tracer
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, StaticSampler, TraceIdRatioBased
from opentelemetry.trace import Status, StatusCode

from otel_rl.core.guard import raised_by_signal_handler
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
_STARTING = (SpanProcessor, BatchSpanProcessor, SimpleSpanProcessor, BaggageSpanProcessor)
#: Attributes of a span for which the SDK has room by default. Which of them a smaller limit drops follows their order.
_USUAL_ROOM = 128
#: Attributes that the SDK keeps as they are.
_PLAIN = frozenset({str, int, float, bool})
_on_start = attrgetter("on_start")


class _Answer(NamedTuple):
    """Whether attributes may come late, for these processors and this sampler of a tracer."""

    processors: object
    sampler: object
    #: Bound methods of the processors as they were asked; None where attributes may not come late.
    starts: list[object] | None


class LateAttributes:
    """Says whether spans of a tracer may get their attributes just after their start, by :meth:`add`.

    The SDK looks at each attribute that it is given at the start, which takes time. Samplers and processors may look at
    them too; those of the SDK and ours do not. Ask for each span: a processor may be added or changed at any time. A
    method of the tracer or sampler that is changed after the first span is not noticed.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer if type(tracer) is Tracer else None
        self._answer = _Answer(None, None, None)

    def may_come(self, values: Mapping[str, Any]) -> bool:
        """Return whether these clean attributes may be added after the start."""
        tracer = self._tracer
        if tracer is None:
            return False
        try:
            processors = tracer.span_processor._span_processors
            answer = self._answer
            if processors is not answer.processors or tracer.sampler is not answer.sampler:
                # One assignment: another thread must not see half of it.
                self._answer = answer = _Answer(processors, tracer.sampler, _starts(tracer, processors))
            # A program may give a processor another method at any time.
            if answer.starts is None or list(map(_on_start, processors)) != answer.starts:
                return False
        except Exception as error:
            # Proxies of processors raise what they like.
            if raised_by_signal_handler(error):
                raise
            return False
        return _PLAIN.issuperset(map(type, values.values()))

    @staticmethod
    def add(span: Span, values: Mapping[str, Any]) -> None:
        """Give ``span``, which has just begun, its attributes."""
        add(span, values)


def _starts(tracer: Any, processors: Any) -> list[object] | None:
    if not _only_hands_on(tracer.span_processor) or not _has_usual_room(tracer):
        return None
    if not _is_own(tracer, "start_span") or not _decides_without(tracer.sampler):
        return None
    starts = [processor.on_start for processor in processors]
    known = {known_class.on_start for known_class in _STARTING if _is_unchanged(known_class.on_start, known_class)}
    return starts if all(getattr(start, "__func__", None) in known for start in starts) else None


def _only_hands_on(processor: object) -> bool:
    """Return whether it looks at no attributes beside those to which it hands a span: the SDK's, or our distro's."""
    origin = type(processor).__module__
    return isinstance(processor, SynchronousMultiSpanProcessor) and origin.startswith(
        ("opentelemetry.sdk.", "otel_rl.")
    )


def _has_usual_room(tracer: Any) -> bool:
    most = tracer._span_limits.max_span_attributes
    return most is None or bool(most >= _USUAL_ROOM)


def _decides_without(sampler: object) -> bool:
    if not isinstance(sampler, _SAMPLERS) or type(sampler).__module__ != StaticSampler.__module__:
        return False
    asked = (getattr(sampler, name) for name in _ASKED if hasattr(sampler, name))
    return _is_own(sampler, "should_sample") and all(map(_decides_without, asked))


def _is_own(processor: object, name: str) -> bool:
    """Return whether a method is the one that its class came with: programs put others in their place."""
    return name not in vars(processor) and _is_unchanged(getattr(type(processor), name), type(processor))


def _is_unchanged(function: Any, owner: type) -> bool:
    # Not by its names, which a wrapper has too.
    code = getattr(function, "__code__", None)
    files = {getattr(sys.modules.get(base.__module__), "__file__", None) for base in owner.__mro__}
    return code is not None and code.co_filename in files


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
