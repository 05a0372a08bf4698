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
    error = _uncaught()
    if error is not None:
        ending = f"uncaught {error_type(error)}"
        run_span.fail(error)
        record(error)


def _uncaught() -> BaseException | None:
    """Return the exception that has ended the program.

    ``code.InteractiveInterpreter`` and its like store handled exceptions in the same place. What ends the program has
    come through the code of the main module, or through ``runpy``, which runs it for ``python -m``.
    """
    error, trace = getattr(sys, "last_value", None), getattr(sys, "last_traceback", None)
    main = sys.modules.get("__main__")
    if error is None or trace is None or hasattr(sys, "ps1"):
        return None
    code = trace.tb_frame.f_code
    if code.co_name == "_run_module_as_main":
        return error  # type: ignore[no-any-return]
    runs_main = code.co_name == "<module>" and trace.tb_frame.f_globals is getattr(main, "__dict__", None)
    # One is absolute, the other as on the command line.
    own_file = (getattr(main, "__file__", None) or "").endswith(code.co_filename)
    return error if runs_main and (own_file or code.co_filename in ("<string>", "<stdin>")) else None


def keep_interrupt_exit_code() -> None:
    """Let a program that Ctrl-C has ended die by the signal, as it would have without us.

    CPython remembers an uncaught KeyboardInterrupt in a flag that every ``exec`` of a string clears, and importing our
    encoders runs many (dataclasses). Such an ``exec`` that is interrupted sets it again.
    """
    if isinstance(_uncaught(), KeyboardInterrupt):
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
