"""The program's own log as log records, where ``OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED`` asks for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from otel_rl import stderr
from otel_rl.process import process_identity

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import LoggerProvider

VARIABLE = "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED"


def record(provider: LoggerProvider | None) -> None:
    """Add the handler of ``opentelemetry-instrumentation-logging``, an optional package; a line says if it is missing.

    Its ``LoggingInstrumentor`` adds none while the variable is set: it leaves that to the SDK's deprecated handler
    (``LoggingInstrumentor._instrument``, 0.65b0 and 0.66b1). So the handler is added here, once.
    """
    if provider is None or os.environ.get(VARIABLE, "").strip().lower() != "true":
        return
    try:
        from opentelemetry.instrumentation.logging.handler import (  # noqa: PLC0415 - optional, rarely asked for
            _setup_logging_handler,
        )
    except ImportError:
        if process_identity.current().leads:
            stderr.write_line(
                f"otel-rl: {VARIABLE}=true needs opentelemetry-instrumentation-logging (pip install"
                " opentelemetry-instrumentation-logging); the program's log is not recorded"
            )
        return
    _setup_logging_handler(logger_provider=provider)
