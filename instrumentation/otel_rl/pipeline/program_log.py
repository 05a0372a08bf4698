"""The program's own log as log records, where ``OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED`` asks for it.

Elsewhere only its errors count, and exceptions of asyncio tasks that nobody awaits: asyncio logs these as errors. Each
place is one event, and a further one when its number has doubled and at the end. Type and place, and a line without an
exception as the code has it: a literal is no content, what the program writes into it is.

No handler is added: with a handler on the root logger, ``logging.warning()`` and ``logging.basicConfig()`` set up none
that writes to standard error, and the program's output changes. The handlers of ``opentelemetry-sdk`` and of
``opentelemetry-instrumentation-logging`` (``_setup_logging_handler``, 0.66b2) are added there. The latter package
records nothing while the variable is ``true``.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import SeverityNumber
from opentelemetry.context import get_current

from otel_rl.core import own_cpu
from otel_rl.core.guard import guard
from otel_rl.semconv import SCHEMA_URL, attributes, events
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, drops, lifecycle, redaction
from otel_rl.telemetry.attribute_values import clean, error_type, plain_content
from otel_rl.telemetry.content_capture import LONGEST, capture_content
from otel_rl.telemetry.exception_text import exception_attributes, origin_attributes, place_attributes
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from types import FrameType

    from opentelemetry.sdk._logs import LoggerProvider

VARIABLE = "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED"
#: Loggers of the SDK and of this package. What they say is not the program's, and each export would cause the next.
_NOT_THE_PROGRAM = frozenset({"opentelemetry", "otel_rl"})
_OUR_THREADS = "otel-rl"
#: Attributes that every record has; the others came with ``extra=``.
_ALWAYS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LEVELS_PER_SEVERITY = 10
_STEPS_PER_SEVERITY = 4
#: Most places of a process.
MOST_PLACES = 64
#: How the handler of asyncio's event loops begins (``Task.__del__`` and ``Future.__del__`` of CPython).
_NEVER_RETRIEVED = ("Task exception was never retrieved", "Future exception was never retrieved")
#: The same of C code (``TaskObj_finalize``), below which the handler writes what the task is.
_DESTROYED = "Task was destroyed but it is pending!"
_STEPS = "otel_rl.training.steps"
_scope = Scope("program_log")


def record(provider: LoggerProvider | None) -> None:
    """Record what the program's loggers let through from here on, whatever handlers they have."""
    if provider is None:
        return
    original = logging.Logger.callHandlers
    is_wanted = os.environ.get(VARIABLE, "").strip().lower() == "true"
    least = logging.NOTSET if is_wanted else logging.ERROR
    recorder = _Recorder(provider) if is_wanted else _ErrorRecorder(provider)
    take = own_cpu.timed("program_log", recorder.take)

    @functools.wraps(original)
    def call_handlers(self: logging.Logger, record: logging.LogRecord) -> None:
        if record.levelno >= least:
            take(record)
        return original(self, record)

    logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign]


class _Recorder(threading.local):
    """Makes log records; per thread, so that it is not entered from within itself."""

    inside = False

    def __init__(self, provider: LoggerProvider) -> None:
        self._provider = provider

    def take(self, record: logging.LogRecord) -> None:
        """Emit ``record`` with the current trace context, later where the thread is inside the SDK."""
        if record.name.partition(".")[0] in _NOT_THE_PROGRAM:
            return
        if threading.current_thread().name.startswith(_OUR_THREADS):
            return
        if self.inside:
            # A signal handler or the user's redaction function logs while this thread makes a record.
            drops.count("logs", "program_log_recursion")
            return
        self.inside = True
        try:
            with guard("program_log"):
                self._record(record)
        finally:
            self.inside = False

    def _record(self, record: logging.LogRecord) -> None:
        fields = _fields(record)
        if deferral.must_wait():
            deferral.later("logs", lambda: self._emit(record.name, fields))
        else:
            self._emit(record.name, fields)

    def _emit(self, name: str, fields: dict[str, Any]) -> None:
        with deferral.inside_sdk():
            # The URL says which processor has nothing left to do, see otel_rl.pipeline.redaction.
            self._provider.get_logger(name, schema_url=SCHEMA_URL).emit(**fields)


class _ErrorRecorder(_Recorder):
    """Records only where errors were logged."""

    def __init__(self, provider: LoggerProvider) -> None:
        super().__init__(provider)
        self._errors = _errors()

    def _record(self, record: logging.LogRecord) -> None:
        self._errors.take(record)


@functools.cache
def _errors() -> LoggedErrors:
    # Each thread has a recorder of its own.
    return LoggedErrors()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    severity = _severity(record.levelno)
    return {
        "timestamp": int(record.created * 1e9),
        "context": get_current(),
        "severity_number": severity,
        "severity_text": record.levelname,
        "body": _body(record),
        "attributes": clean({**_extra(record), **_exception(record)}, "logs"),
    }


def _severity(level: int) -> SeverityNumber:
    """DEBUG, INFO, WARNING, ERROR and CRITICAL are 5, 9, 13, 17 and 21; levels between them lie between these."""
    step = min(level % _LEVELS_PER_SEVERITY, _STEPS_PER_SEVERITY - 1)
    number = level // _LEVELS_PER_SEVERITY * _STEPS_PER_SEVERITY + 1 + step
    return SeverityNumber(min(max(number, SeverityNumber.TRACE.value), SeverityNumber.FATAL4.value))


def _body(record: logging.LogRecord) -> Any:
    """Return the line; a dictionary or list that was logged in its place keeps its structure."""
    if record.args or not isinstance(record.msg, Mapping | list | tuple):
        return redaction.text(_message(record), "logs")
    try:
        return plain_content(record.msg, LONGEST, redaction.redact())
    except redaction.Dropped as dropped:
        drops.count("logs", str(dropped))
        return None


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - arguments that do not fit: logging itself reports it to the program
        return str(record.msg)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _ALWAYS}


def _exception(record: logging.LogRecord) -> dict[str, Any]:
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    return {} if error is None else exception_attributes(error)


class _LoggedPlace:
    """What is known of the records of one place."""

    __slots__ = ("number", "told", "values")

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.number = self.told = 0


class LoggedErrors:
    """The errors that this process has logged, by place."""

    def __init__(self) -> None:
        self._places: dict[tuple[Any, ...], _LoggedPlace] = {}
        self._lock = threading.RLock()
        lifecycle.at_first_record(self._tell_later)
        lifecycle.before_shutdown(self.tell)
        lifecycle.after_fork_in_child(self._forget)

    def take(self, record: logging.LogRecord) -> None:
        """Count an error; its place is an event in a process that records something else too."""
        error = _error_in(record)
        key = (record.name, record.pathname, record.lineno, type(error), _end_of(error))
        if not self._lock.acquire(timeout=0.1):
            return
        try:
            place = self._places.get(key)
            if place is None:
                if len(self._places) >= MOST_PLACES:
                    drops.count(Signal.LOGS, "logged_error_limit")
                    return
                place = self._places[key] = _LoggedPlace(_values(record, error))
            place.number += 1
            is_due = place.number >= 2 * place.told
        finally:
            self._lock.release()
        if is_due and lifecycle.has_recorded:
            deferral.post(Signal.LOGS, lambda: _tell(place))

    def tell(self) -> None:
        """Record the places whose number has grown."""
        if lifecycle.has_recorded:
            for place in tuple(self._places.values()):
                _tell(place)

    def _tell_later(self) -> None:
        if self._places:
            deferral.post(Signal.LOGS, self.tell)

    def _forget(self) -> None:
        self._places, self._lock = {}, threading.RLock()


def _tell(place: _LoggedPlace) -> None:
    number = place.number
    if number > place.told:
        place.told = number
        values = {**place.values, attributes.RL_LOG_RECORDS: number}
        _scope.event(events.RL_LOG_ERROR, severity=SeverityNumber.ERROR, attributes=values)


def _error_in(record: logging.LogRecord) -> BaseException | None:
    """Return the exception that was logged, as its own argument, that of the line, or in its place."""
    given = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    args: tuple[Any, ...] = record.args if isinstance(record.args, tuple) else ()
    # Not by its truth: that of an exception of the program may be anything.
    if given is not None:
        return given
    return next((one for one in (*args, record.msg) if issubclass(type(one), BaseException)), None)


def _end_of(error: BaseException | None) -> tuple[int, int] | None:
    """Return what tells the line in which it was raised."""
    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else (id(trace.tb_frame.f_code), trace.tb_lineno)


def _values(record: logging.LogRecord, error: BaseException | None) -> dict[str, Any]:
    # No text of an object of the program is made: maybe no handler would have one.
    message = record.msg if type(record.msg) is str else ""
    steps = sys.modules.get(_STEPS)
    values: dict[str, Any] = place_attributes(record.pathname, record.lineno, record.funcName)
    if error is not None:
        values[attributes.EXCEPTION_TYPE] = error_type(error)
        if error.__traceback__ is not None:
            values |= {name: value for name, value in origin_attributes(error).items() if name in values}
    values[attributes.RL_LOG_LOGGER] = record.name
    values[attributes.RL_LOOP_ITERATION] = steps.last_iteration() if steps is not None else None
    if record.name == "asyncio" and message.startswith(_NEVER_RETRIEVED):
        values[attributes.RL_EXCEPTION_NEVER_RETRIEVED] = True
    if not capture_content():
        message = _literal(record, message) if error is None else ""
    elif error is not None:
        message = str(error)
    values[attributes.EXCEPTION_MESSAGE] = redaction.text(message, "logs") if message else None
    return values


def _literal(record: logging.LogRecord, message: str) -> str:
    """Return the line, without its arguments, if it is a literal of the code; empty if it may be content."""
    if record.name == "asyncio" and message.startswith(_DESTROYED):
        return _DESTROYED
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - as logging itself finds its caller
    while frame is not None and (frame.f_lineno, frame.f_code.co_filename) != (record.lineno, record.pathname):
        frame = frame.f_back
    # By identity: a text that was put together is another object.
    return message if frame is not None and any(one is message for one in frame.f_code.co_consts) else ""
