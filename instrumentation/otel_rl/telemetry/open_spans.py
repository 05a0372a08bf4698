"""What is added to a span while it is open, whoever has opened it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.trace import Status, StatusCode

from otel_rl.semconv import attributes
from otel_rl.telemetry.attribute_values import text

if TYPE_CHECKING:
    from opentelemetry.trace import Span


def mark_error(span: Span, kind: str) -> None:
    """Make ``span`` an error of type ``kind`` without ending it."""
    if span.is_recording():
        kind = text(kind)
        span.set_attribute(attributes.ERROR_TYPE, kind)
        span.set_status(Status(StatusCode.ERROR, kind))
