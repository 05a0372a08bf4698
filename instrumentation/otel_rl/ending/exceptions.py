"""Exceptions that nothing catches become a log record with rank and last step; the original hooks run as before.

``sys.excepthook`` is left alone: libraries replace it only where it is the interpreter's own (``exceptiongroup`` does
on Python 3.10), so that one of ours would change what the program prints. The interpreter remembers the exception.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import SeverityNumber

from otel_rl.core.guard import guard
from otel_rl.process import child_processes, process_identity
from otel_rl.semconv import attributes, events
from otel_rl.telemetry import progress, run_span
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.telemetry.exception_text import causes, exception_attributes, origin_attributes
from otel_rl.telemetry.scope import Scope
from otel_rl.training import steps

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

_scope = Scope("process")

#: Name of the exception that ends the process, for the manifest.
ending: str | None = None
#: In a notebook: whether the last cell failed with this exception.
is_of_last_cell: Callable[[BaseException], bool] | None = None


def watch() -> None:
    """Put our part in front of ``threading.excepthook``."""
    original = threading.excepthook

    def thread_excepthook(arguments: threading.ExceptHookArgs) -> Any:
        if arguments.exc_value is not None and not isinstance(arguments.exc_value, SystemExit):
            record(arguments.exc_value, _name_of(arguments.thread))
        return original(arguments)

    threading.excepthook = thread_excepthook


def _name_of(thread: threading.Thread | None) -> str | None:
    """Return the name of the thread; None for the main thread."""
    if thread is threading.main_thread():
        return None
    return thread.name if thread is not None else "unknown"


def record_ending() -> None:
    """Record at exit the exception that ended the program, if one did."""
    global ending
    error = _uncaught()
    if error is not None:
        ending = f"uncaught {error_type(error)}"
        run_span.fail(error)
        record(error)
    elif is_of_last_cell is not None and (error := getattr(sys, "last_value", None)) and is_of_last_cell(error):
        # Recorded when the cell ended; the kernel ends with status 0 all the same.
        ending = f"uncaught {error_type(error)} in the last cell"
        run_span.fail(error, status=None)


def _uncaught() -> BaseException | None:
    """Return the exception that has ended the program.

    ``code.InteractiveInterpreter`` and its like store handled exceptions in the same place. What ends the program has
    come through the code of the main module, or through ``runpy``, which runs it for ``python -m``.
    """
    error, trace = getattr(sys, "last_value", None), getattr(sys, "last_traceback", None)
    if error is None or trace is None or hasattr(sys, "ps1"):
        return None
    code = trace.tb_frame.f_code
    return error if code.co_name == "_run_module_as_main" or _is_main_module(code, trace.tb_frame.f_globals) else None


def _is_main_module(code: CodeType, namespace: dict[str, Any]) -> bool:
    if code.co_name != "<module>" or namespace is not getattr(sys.modules.get("__main__"), "__dict__", None):
        return False
    kind, which, _ = child_processes.program(child_processes.original_arguments())
    names = (os.path.basename(which),) if kind == "script" else ("<string>", "<stdin>")  # noqa: PTH119 - as in process
    return os.path.basename(code.co_filename) in names  # noqa: PTH119


def keep_interrupt_exit_code() -> None:
    """Let a program that Ctrl-C has ended die by the signal, as it would have without us.

    CPython remembers an uncaught KeyboardInterrupt in a flag that every ``exec`` of a string clears, and importing our
    encoders runs many (dataclasses). Such an ``exec`` that is interrupted sets it again. Ray's ``shutdown``, which has
    run by now, imports dataclasses, too, so a program with Ray ends with status 1 without us.
    """
    if isinstance(_uncaught(), KeyboardInterrupt) and "ray._private.worker" not in sys.modules:
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")  # noqa: S102 - a constant, see above


def record(error: BaseException, thread: str | None = None, cell: int | None = None) -> None:
    """Emit ``rl.process.exception``.

    Args:
        error: What nothing caught.
        thread: The thread that it ended, where that is not the main thread.
        cell: Number of the notebook's cell that it ended, where the process goes on.
    """
    with guard("exceptions.record"):
        who, step = process_identity.current(), steps.where().step
        failed = None if step is not None else steps.failed_part(causes(error))
        iteration = step.iteration if step is not None else failed.iteration if failed is not None else None
        # Phases that are open belong to the main thread, as far as is known.
        in_phase = next(reversed(progress.open_phases()), None) if step is not None and thread is None else None
        _scope.event(
            events.RL_PROCESS_EXCEPTION,
            severity=_severity(error, thread, cell),
            context=step.context if step is not None else None,
            attributes={
                **exception_attributes(error),
                **origin_attributes(error),
                attributes.THREAD_NAME: thread,
                attributes.RL_EXCEPTION_CELL: cell,
                attributes.RL_RANK: who.rank,
                attributes.RL_LOOP_ITERATION: steps.last_iteration() if iteration is None else iteration,
                attributes.RL_EXCEPTION_IN_STEP: None if steps.last_iteration() is None else iteration is not None,
                attributes.RL_PHASE: failed.phase if failed is not None else in_phase,
            },
        )


def _severity(error: BaseException, thread: str | None, cell: int | None) -> SeverityNumber:
    if thread is not None:
        return SeverityNumber.ERROR
    if isinstance(error, KeyboardInterrupt):
        return SeverityNumber.WARN
    return SeverityNumber.FATAL if cell is None else SeverityNumber.ERROR
