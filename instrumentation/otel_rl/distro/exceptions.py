"""Exceptions that nothing catches become a log record with rank and last step; the original hooks run as before."""

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import SeverityNumber

from otel_rl.semconv import attributes, events
from otel_rl.telemetry import run, run_span, steps
from otel_rl.telemetry.attributes import MAXIMUM_LENGTH, error_type
from otel_rl.telemetry.internal_errors import guard
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from types import TracebackType

_scope = Scope("process")
_recorded: set[int] = set()

#: Name of the exception that ends the process, for the manifest.
ending: str | None = None


def watch() -> None:
    """Put our part in front of ``sys.excepthook`` and ``threading.excepthook``."""
    original, original_of_threads = sys.excepthook, threading.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        _ending(error)
        return original(kind, error, trace)

    def thread_excepthook(arguments: threading.ExceptHookArgs) -> Any:
        if arguments.exc_value is not None and not isinstance(arguments.exc_value, SystemExit):
            record(arguments.exc_value)
        return original_of_threads(arguments)

    sys.excepthook = excepthook
    threading.excepthook = thread_excepthook


def record_unhooked() -> None:
    """At exit: an exception that ended the program although somebody has replaced our hook."""
    error = getattr(sys, "last_value", None)
    if error is not None and not hasattr(sys, "ps1"):
        _ending(error)


def keep_interrupt_exit_code() -> None:
    """Let a program that Ctrl-C has ended die by the signal, as it would have without us.

    CPython remembers an uncaught KeyboardInterrupt in a flag that every ``exec`` of a string clears, and importing our
    encoders runs many (dataclasses). Such an ``exec`` that is interrupted sets it again.
    """
    if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")  # noqa: S102 - a constant, see above


def _ending(error: BaseException) -> None:
    global ending
    with guard("exceptions.ending"):
        if id(error) not in _recorded:
            ending = f"uncaught {error_type(error)}"
            run_span.fail(error)
            record(error)


def record(error: BaseException) -> None:
    """Emit ``rl.process.exception``."""
    with guard("exceptions.record"):
        _recorded.add(id(error))
        who, step = run.current(), steps.current()
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
                attributes.RL_LOOP_ITERATION: who.iteration,
            },
        )
