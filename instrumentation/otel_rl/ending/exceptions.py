"""Exceptions that nothing catches become a log record with rank and last step; the original hooks run as before.

``sys.excepthook`` is left alone: libraries replace it only where it is the interpreter's own (``exceptiongroup`` does
on Python 3.10), so that one of ours would change what the program prints. The interpreter remembers the exception.
"""

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import suppress
from typing import Any

from opentelemetry._logs import SeverityNumber

from otel_rl.internal_errors import guard
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, events
from otel_rl.telemetry import run_span
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH, error_type
from otel_rl.telemetry.scope import Scope
from otel_rl.training import steps

_scope = Scope("process")

#: Name of the exception that ends the process, for the manifest.
ending: str | None = None


def watch() -> None:
    """Put our part in front of ``threading.excepthook``."""
    original = threading.excepthook

    def thread_excepthook(arguments: threading.ExceptHookArgs) -> Any:
        if arguments.exc_value is not None and not isinstance(arguments.exc_value, SystemExit):
            record(arguments.exc_value)
        return original(arguments)

    threading.excepthook = thread_excepthook


def record_ending() -> None:
    """At exit: the exception that ended the program, if one did."""
    global ending
    error = getattr(sys, "last_value", None)
    if error is not None and not hasattr(sys, "ps1"):
        ending = f"uncaught {error_type(error)}"
        run_span.fail(error)
        record(error)


def keep_interrupt_exit_code() -> None:
    """Let a program that Ctrl-C has ended die by the signal, as it would have without us.

    CPython remembers an uncaught KeyboardInterrupt in a flag that every ``exec`` of a string clears, and importing our
    encoders runs many (dataclasses). Such an ``exec`` that is interrupted sets it again.
    """
    if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")  # noqa: S102 - a constant, see above


def record(error: BaseException) -> None:
    """Emit ``rl.process.exception``."""
    with guard("exceptions.record"):
        who, step = process_identity.current(), steps.current()
        stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        _scope.event(
            events.RL_PROCESS_EXCEPTION,
            severity=SeverityNumber.FATAL,
            context=step.context if step is not None else None,
            attributes={
                attributes.EXCEPTION_TYPE: error_type(error),
                attributes.EXCEPTION_MESSAGE: str(error),
                # Its end says where the exception was raised.
                attributes.EXCEPTION_STACKTRACE: stack[-MAXIMUM_LENGTH:],
                attributes.RL_RANK: who.rank,
                attributes.RL_LOOP_ITERATION: steps.last_iteration(),
            },
        )
