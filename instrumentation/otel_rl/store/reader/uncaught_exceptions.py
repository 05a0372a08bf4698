"""Exceptions that nothing caught: what a record says of one, and the sentence that follows the name of its process."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from otel_rl.store.reader.processes import Process
    from otel_rl.store.reader.records import Log

#: Characters of a message in a sentence.
_MESSAGE = 240
#: Escape sequences of a terminal: nbclient quotes the traceback of a cell in colours.
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: What nbclient and papermill raise where a cell fails: the last line of the traceback that they quote names it.
_OF_CELL = ("CellExecutionError", "PapermillExecutionError")
#: What Ray raises where a call has failed, with the traceback of the worker.
_OF_RAY = "RayTaskError"
_INTERRUPT = "KeyboardInterrupt"
#: How tasks fail when their program is interrupted.
_CANCELLED = frozenset({"CancelledError", "asyncio.CancelledError", "asyncio.exceptions.CancelledError"})


@dataclass(frozen=True, slots=True)
class UncaughtException:
    """An uncaught exception that ended a process, a thread or a notebook's cell; ``time`` in ns since the epoch."""

    kind: str
    message: str
    stacktrace: str
    process: Process
    iteration: int | None
    time: int
    #: Type and message of the root cause, empty where it is the exception itself.
    cause_kind: str = ""
    cause_message: str = ""
    #: Where the root cause was raised: ``trl/extras/profiling.py:28``, and the function.
    location: str = ""
    function: str = ""
    #: The installed package whose code that is; empty for the program's own.
    library: str = ""
    #: Line of the program's own files, where the root cause was raised elsewhere.
    program_location: str = ""
    #: The thread that it ended; empty for the main thread.
    thread: str = ""
    #: Number of the notebook's cell that it ended; None outside of notebooks.
    cell: int | None = None
    #: Whether the iteration was not completed; None: not known.
    in_step: bool | None = None
    phase: str = ""

    @property
    def who(self) -> str:
        """Label of the process."""
        return self.process.label

    @property
    def is_interrupt(self) -> bool:
        """True for Ctrl-C."""
        return self.kind == _INTERRUPT and not self.thread

    @property
    def kinds(self) -> set[str]:
        """Types by which spans may have failed through it."""
        cancelled = _CANCELLED if self.is_interrupt else ()
        return {self.kind, self.cause_kind, *cancelled} - {""}


def exception_of(log: Log) -> UncaughtException:
    """Return the exception that a record of ``rl.process.exception`` holds."""
    from otel_rl.telemetry import exception_text  # noqa: PLC0415 - imports OpenTelemetry, and most runs have none

    def text(name: str) -> str:
        value = log.attributes.get(name)
        return "" if value is None else str(value)

    in_step, file, line = (
        log.attributes.get(names.RL_EXCEPTION_IN_STEP),
        text(names.CODE_FILE_PATH),
        text(names.CODE_LINE_NUMBER),
    )
    return UncaughtException(
        kind=text(names.EXCEPTION_TYPE) or "exception",
        message=text(names.EXCEPTION_MESSAGE),
        stacktrace=text(names.EXCEPTION_STACKTRACE),
        process=log.process,
        iteration=int_or_none(log.attributes.get(names.RL_LOOP_ITERATION)),
        time=log.time,
        cause_kind=text(names.RL_CAUSE_EXCEPTION_TYPE),
        cause_message=text(names.RL_CAUSE_EXCEPTION_MESSAGE),
        location=exception_text.position(file, line) if file else "",
        function=text(names.CODE_FUNCTION_NAME),
        library=text(names.RL_EXCEPTION_LIBRARY),
        program_location=text(names.RL_EXCEPTION_PROGRAM_LOCATION),
        thread=text(names.THREAD_NAME),
        cell=int_or_none(log.attributes.get(names.RL_EXCEPTION_CELL)),
        in_step=in_step if isinstance(in_step, bool) else None,
        phase=text(names.RL_PHASE),
    )


def failed(exception: UncaughtException, is_training: bool) -> str:
    """Return ``failed: KeyError: 'reward' (train.py:12, in score), during step 4, phase train``."""
    where = "" if exception.cell is None else f" in cell {exception.cell}, its last"
    return f"failed{where}: {what(exception)}{_when(exception, is_training)}"


def interrupted(exception: UncaughtException) -> str:
    """Return what is said of Ctrl-C."""
    return f"was interrupted by Ctrl-C (SIGINT){_when(exception, is_training=False)}"


def what(exception: UncaughtException) -> str:
    """Return the root cause with its place, and what became of it."""
    has_cause = bool(exception.cause_kind)
    kind = exception.cause_kind if has_cause else exception.kind
    root = _said(kind, exception.cause_message if has_cause else exception.message)
    place = f" ({exception.location}{_function(exception)})" if exception.location else ""
    importing = exception.function.removesuffix(".<module>")
    during = f" while {importing} was imported" if importing != exception.function else ""
    became = f", which became {_said(exception.kind, exception.message)}" if has_cause else ""
    return f"{root}{place}{during}{became}"


def _function(exception: UncaughtException) -> str:
    return f", in {exception.function}" if exception.function and "<module>" not in exception.function else ""


def _said(kind: str, message: str) -> str:
    """Return the exception in one line of bounded length."""
    text = _COLOURS.sub("", message).strip()
    quotes = kind.endswith(_OF_CELL) or _OF_RAY in kind
    line = " ".join((text.rpartition("\n")[2] if quotes else text).split())
    line = line if len(line) <= _MESSAGE else f"{line[:_MESSAGE].rstrip()}…"
    return f"{kind}: {line}" if line else kind


def _when(exception: UncaughtException, is_training: bool) -> str:
    phase = f", phase {exception.phase}" if exception.phase else ""
    if exception.iteration is None:
        return f"{phase or ', before the first step'}" if is_training else phase
    if exception.in_step is None:
        return f"; the last step begun was {exception.iteration}"
    return f", {'during' if exception.in_step else 'after'} step {exception.iteration}{phase}"
