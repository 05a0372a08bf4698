"""Errors in the program's own log, and exceptions of asyncio tasks that nobody awaits: asyncio logs these as errors.

Each place is one event, and a further one when its number has doubled and at the end. Type and place only: what the
program writes is content.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import SeverityNumber

from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, drops, lifecycle, redaction
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.telemetry.content_capture import capture_content
from otel_rl.telemetry.exception_text import origin_attributes, place_attributes
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    import logging

#: Most places of a process.
MOST_PLACES = 64
#: How the handler of asyncio's event loops begins (``Task.__del__`` and ``Future.__del__`` of CPython).
_NEVER_RETRIEVED = ("Task exception was never retrieved", "Future exception was never retrieved")
_STEPS = "otel_rl.training.steps"
_scope = Scope("program_log")


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
    """Return the exception that was logged, as its own argument or that of the line."""
    given = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    args: tuple[Any, ...] = record.args if isinstance(record.args, tuple) else ()
    return given or next((one for one in args if issubclass(type(one), BaseException)), None)


def _end_of(error: BaseException | None) -> tuple[int, int] | None:
    """Return what tells the line in which it was raised."""
    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else (id(trace.tb_frame.f_code), trace.tb_lineno)


def _values(record: logging.LogRecord, error: BaseException | None) -> dict[str, Any]:
    message = str(record.msg)
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
    if capture_content():
        values[attributes.EXCEPTION_MESSAGE] = redaction.text(str(error) if error is not None else message, "logs")
    return values
