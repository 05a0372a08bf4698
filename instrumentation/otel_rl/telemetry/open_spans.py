# ruff: noqa: SLF001 - what `add` describes has no public way
"""What is added to a span while it is open, whoever has opened it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.trace import Status, StatusCode

from otel_rl.semconv import attributes
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH, text

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_set_attributes = SdkSpan.set_attributes


def add(span: Span, values: dict[str, Any]) -> None:
    """Like ``span.set_attributes``, for values that are clean and bounded already.

    Each is a bool, number or text of at most ``MAXIMUM_LENGTH`` characters, or a tuple of these. The SDK would look at
    each once more (``opentelemetry.attributes._clean_attribute_value``, API 1.44 and 1.45), which takes several times
    as long as keeping it. So they are put where the SDK keeps them, under its locks. Where its internals differ, or a
    limit of the user may apply, ``span.set_attributes`` takes them.
    """
    if type(span).set_attributes is not _set_attributes or not _add_below(span, values):
        span.set_attributes(values)


def _add_below(span: Any, values: dict[str, Any]) -> bool:
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
