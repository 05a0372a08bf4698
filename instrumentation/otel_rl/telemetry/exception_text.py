"""An exception as attributes of a log record: type, message and stack, past the user's redaction function."""

from __future__ import annotations

import traceback
from typing import Any

from otel_rl.semconv import attributes
from otel_rl.telemetry import redaction
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH, error_type


def exception_attributes(error: BaseException) -> dict[str, Any]:
    """Return ``exception.*`` of ``error``; None for a text that the user's function did not let pass."""
    stack = redaction.text("".join(traceback.format_exception(type(error), error, error.__traceback__)), "logs")
    return {
        attributes.EXCEPTION_TYPE: error_type(error),
        attributes.EXCEPTION_MESSAGE: redaction.text(str(error), "logs"),
        # Its end says where the exception was raised.
        attributes.EXCEPTION_STACKTRACE: None if stack is None else stack[-MAXIMUM_LENGTH:],
    }
